package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmring/warmring/routing"
)

func (a *Admin) status(w http.ResponseWriter, _ *http.Request) {
	e := a.deps.Picker.Epoch()
	s := Status{
		Router: a.deps.Router, Version: a.deps.Version, Started: a.deps.Started,
		Epoch: e.ID(), Digest: digest(e), Endpoints: len(e.Endpoints()), Backends: len(e.Backends()), Queued: a.queued(),
	}
	if hot := e.Hot(); hot != nil {
		s.HotRuns = new(len(hot.Runs))
	}
	for _, l := range a.deps.Picker.Snapshot(a.deps.Now()) {
		s.InFlight += l.InFlight
	}
	s.Ready, s.NotReady = a.ready()
	s.Cluster = a.cluster()
	a.write(w, http.StatusOK, s)
}

func (a *Admin) queued() int {
	if a.deps.Queued == nil {
		return 0
	}
	return a.deps.Queued()
}

// ready says whether the router is, and if not, why.
func (a *Admin) ready() (ready bool, why string) {
	if a.deps.Ready == nil {
		return true, ""
	}
	if err := a.deps.Ready(); err != nil {
		return false, err.Error()
	}
	return true, ""
}

func digest(e *routing.Epoch) string { return fmt.Sprintf("%016x", e.Digest()) }

func (a *Admin) epoch(w http.ResponseWriter, _ *http.Request) {
	e := a.deps.Picker.Epoch()
	setETag(w, e)
	a.write(w, http.StatusOK, Epoch{
		ID: e.ID(), Generation: e.Generation(), Number: e.Number(), Digest: digest(e),
		Endpoints: len(e.Endpoints()), Backends: len(e.Backends()),
	})
}

func (a *Admin) endpoints(w http.ResponseWriter, _ *http.Request) {
	loads := a.deps.Picker.Snapshot(a.deps.Now())
	list := []EndpointStatus{}
	for _, ep := range a.deps.Picker.Epoch().Endpoints() {
		s := EndpointStatus{Name: ep.Name, Aliases: ep.Aliases, Adapters: ep.Adapters, Variants: []VariantStatus{}}
		for _, v := range ep.Variants {
			s.Variants = append(s.Variants, variantStatus(ep.Name, v, loads))
		}
		list = append(list, s)
	}
	a.write(w, http.StatusOK, list)
}

func variantStatus(endpoint string, v routing.Variant, loads []routing.Load) VariantStatus {
	s := VariantStatus{
		Name: v.Name, Weight: v.Weight, Strategy: string(v.Policy.Strategy),
		PrefixLength: prefixLength(&v.Policy), ConcurrencyThreshold: v.Policy.ConcurrencyThreshold,
	}
	for _, l := range loads {
		if l.Backend.Endpoint != endpoint || l.Backend.Variant != v.Name {
			continue
		}
		s.InFlight += l.InFlight
		if l.Gone {
			continue
		}
		s.Backends++
		if l.Backend.State == routing.Active {
			s.Active++
		}
	}
	return s
}

// prefixLength is in characters, "auto", or empty where prefixes do not count.
func prefixLength(p *routing.Policy) string {
	switch {
	case p.Strategy != routing.PrefixAware:
		return ""
	case p.PrefixLength == 0:
		return "auto"
	}
	return strconv.Itoa(p.PrefixLength)
}

func (a *Admin) backends(w http.ResponseWriter, _ *http.Request) {
	list := []BackendStatus{}
	for _, l := range a.deps.Picker.Snapshot(a.deps.Now()) {
		b := l.Backend
		list = append(list, BackendStatus{
			ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, State: b.State.String(),
			Weight: b.Weight, MaxInFlight: b.MaxInflight, Source: b.Source, Incarnation: b.Incarnation,
			InFlight: l.InFlight, Prefill: l.Prefill, Picks: l.Picks, Failures: l.Failures,
			PeerInFlight: l.PeerInFlight, PeerPrefill: l.PeerPrefill, PeersEjected: l.PeersEjected, Rumoured: l.Rumoured,
			EjectedUntil: until(l.EjectedUntil), BusyUntil: until(l.BusyUntil), Gone: l.Gone,
		})
	}
	a.write(w, http.StatusOK, list)
}

// until is nil for the zero time.
func until(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
