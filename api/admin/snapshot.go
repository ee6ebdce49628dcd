package admin

import (
	"net/http"
	"time"
)

// Traffic is what is known of the last five minutes, in the terms of Snapshot.
type Traffic struct {
	Now          Figures
	Decisions    map[string]uint64
	OverheadP50  *float64
	HistoryStep  time.Duration
	HistoryUntil time.Time
	History      []Figures
	Backends     map[string]Figures // by id
	Changes      []Change
}

func (a *Admin) snapshot(w http.ResponseWriter, _ *http.Request) {
	now, e := a.deps.Now(), a.deps.Picker.Epoch()
	var t Traffic
	if a.deps.Traffic != nil {
		t = a.deps.Traffic(now)
	}
	s := Snapshot{
		At: now, Router: a.deps.Router, Version: a.deps.Version, Started: a.deps.Started,
		Epoch: e.ID(), Digest: digest(e), Queued: a.queued(),
		Now: t.Now, Decisions: t.Decisions, OverheadP50: t.OverheadP50,
		HistoryStep: t.HistoryStep.Seconds(), HistoryUntil: t.HistoryUntil,
		History: orEmpty(t.History), Backends: []BackendTraffic{}, Changes: orEmpty(t.Changes),
		Cluster: a.cluster(), Members: a.memberList(),
	}
	if s.Decisions == nil {
		s.Decisions = map[string]uint64{}
	}
	s.Ready, s.NotReady = a.ready()
	for _, l := range a.deps.Picker.Snapshot(now) {
		s.InFlight += l.InFlight
		if l.Gone {
			continue // its id may belong to a new incarnation
		}
		b := l.Backend
		s.Backends = append(s.Backends, BackendTraffic{
			ID: b.ID, Endpoint: b.Endpoint, Variant: b.Variant, State: b.State.String(), MaxInFlight: b.MaxInflight,
			Source: b.Source, InFlight: l.InFlight, Prefill: l.Prefill,
			PeerInFlight: l.PeerInFlight, PeerPrefill: l.PeerPrefill, PeersEjected: l.PeersEjected, Rumoured: l.Rumoured, EjectedUntil: until(l.EjectedUntil), BusyUntil: until(l.BusyUntil),
			Minute: t.Backends[b.ID],
		})
	}
	share(s.Backends)
	a.write(w, http.StatusOK, s)
}

// share fills in each server's part of all requests; without any it stays unknown.
func share(list []BackendTraffic) {
	total := 0.0
	for _, b := range list {
		total += b.Minute.Requests
	}
	if total == 0 {
		return
	}
	for i := range list {
		list[i].Share = new(list[i].Minute.Requests / total)
	}
}

// orEmpty: a list in JSON is never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
