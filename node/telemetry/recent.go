package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
)

// What is kept: all requests by the second for what is true now, by five seconds for the past, and each backend's by ten
// seconds, where a shorter span would hold too few to say anything.
const (
	nowStep, nowSteps         = time.Second, 10
	historyStep, historySteps = 5 * time.Second, 60
	backendStep, backendSteps = 10 * time.Second, 6
	sampleEvery               = time.Second
)

// Recent knows the last five minutes of one router, in memory of a fixed size for each backend. It starts nothing: it
// samples the picker's view when a request ends or somebody reads, once a second at most.
type Recent struct {
	loads Loads
	now   func() time.Time
	since time.Time // when it began

	mu           sync.Mutex // guards what follows
	last10, past *ring      // of all requests
	backends     map[string]*ring
	fleet        *routing.Epoch // the latest; nil before the first
	ejected      map[string]bool
	changes      changes
	sampled      time.Time
}

// NewRecent makes an empty Recent that watches these loads.
func NewRecent(loads Loads, now func() time.Time) *Recent {
	return &Recent{
		loads: loads, now: now, since: now(),
		last10: newRing(nowStep, nowSteps), past: newRing(historyStep, historySteps),
		backends: map[string]*ring{}, ejected: map[string]bool{},
	}
}

// Observe counts one request that is over.
func (r *Recent) Observe(_ context.Context, rec *api.Record) {
	now := r.now()
	r.mu.Lock()
	r.last10.at(now).count(rec)
	r.past.at(now).count(rec)
	if b := r.backends[rec.Backend]; b != nil {
		b.at(now).count(rec)
	}
	due := now.Sub(r.sampled) >= sampleEvery
	r.mu.Unlock()
	if due {
		r.sample(now)
	}
}

// SetFleet notes what e changes, and forgets the backends that it does not have. An epoch older than the last is ignored.
func (r *Recent) SetFleet(e *routing.Epoch) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fleet != nil && slices.Compare([]uint64{e.Generation(), e.Number()}, []uint64{r.fleet.Generation(), r.fleet.Number()}) <= 0 {
		return
	}
	r.changes.addEpoch(r.fleet, e, now)
	r.fleet = e
	kept := make(map[string]*ring, len(r.backends))
	for _, b := range e.Backends() {
		if kept[b.ID] = r.backends[b.ID]; kept[b.ID] == nil {
			kept[b.ID] = newRing(backendStep, backendSteps)
		}
	}
	r.backends = kept
}

// sample adds the requests in flight to the figures, and notes ejections that began or ended.
func (r *Recent) sample(now time.Time) {
	loads := r.loads.Snapshot(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.sampled) < sampleEvery {
		return // another was quicker
	}
	r.sampled = now
	total := 0
	for _, l := range loads {
		total += l.InFlight
		if b := r.backends[l.Backend.ID]; b != nil && !l.Gone {
			b.at(now).sample(l.InFlight)
			r.noteEjection(l, now)
		}
	}
	r.last10.at(now).sample(total)
	r.past.at(now).sample(total)
	for id := range r.ejected {
		if r.backends[id] == nil {
			delete(r.ejected, id)
		}
	}
}

func (t *tally) sample(inFlight int) {
	t.inFlight += uint32(max(inFlight, 0))
	t.samples++
}

// noteEjection: an ejection lasts until a success, however often its time is renewed between.
func (r *Recent) noteEjection(l routing.Load, now time.Time) {
	id, is := l.Backend.ID, l.Ejections > 0
	switch {
	case is && !r.ejected[id]:
		r.ejected[id] = true
		r.changes.add(Change{At: now, Kind: ChangeEjected, Subject: id})
	case !is && r.ejected[id]:
		delete(r.ejected, id)
		r.changes.add(Change{At: now, Kind: ChangeReturned, Subject: id})
	}
}

// Report is what a Recent knows at one moment.
type Report struct {
	Now          Figures                     // of about the last ten seconds
	Decisions    map[routing.Decision]uint64 // in that span
	OverheadP50  *float64                    // milliseconds that this router adds, median; nil: not known
	HistoryStep  time.Duration
	HistoryUntil time.Time          // where the newest step ends
	History      []Figures          // whole steps, oldest first; none from before the start
	Backends     map[string]Figures // of about the last minute, for each backend of the fleet
	Changes      []Change           // newest first
}

// Read reports the state at now.
func (r *Recent) Read(now time.Time) Report {
	r.sample(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	recent, span := r.last10.sum(now, r.since)
	out := Report{
		Now: recent.figures(span), Decisions: map[routing.Decision]uint64{}, OverheadP50: recent.overhead.quantile(.5),
		HistoryStep: historyStep, Backends: make(map[string]Figures, len(r.backends)), Changes: r.changes.newestFirst(),
	}
	for i, d := range decisionNames() {
		if n := recent.decisions[i]; n > 0 {
			out.Decisions[d] = uint64(n)
		}
	}
	for id, b := range r.backends {
		all, span := b.sum(now, r.since)
		out.Backends[id] = all.figures(span)
	}
	running := r.past.step(now)
	out.HistoryUntil = r.past.begin(running)
	for step := max(running-historySteps, r.past.step(r.since)); step < running; step++ {
		t := r.past.whole(step)
		if t == nil {
			t = &tally{}
		}
		out.History = append(out.History, t.figures(historyStep))
	}
	return out
}
