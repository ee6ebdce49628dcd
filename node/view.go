package node

import (
	"sync"
	"time"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/gossip/places"
	"github.com/warmring/warmring/routing"
)

// placesKept is how many placements a router keeps for one that joins: more than what is placed while a cache lives in
// most fleets.
const placesKept = 1 << 14

// view keeps what this router tells the others about backends, and hands what they tell to the picker.
type view struct {
	picker    *routing.Picker
	publisher *loads.Publisher
	places    *places.Log

	mu      sync.Mutex // guards what follows, and the order in which entries are published
	entries map[loads.Key]loads.Entry
	scratch []routing.Own
	placed  []routing.Placement // scratch
	told    []places.Placement  // scratch

	probes map[loads.Key]opinions // what the others' probes say; heard's alone
}

// opinions are how many others find a backend ready, and dead.
type opinions struct{ ready, dead int }

func newView(name string, picker *routing.Picker) *view {
	return &view{picker: picker, publisher: loads.NewPublisher(name), places: places.NewLog(placesKept), entries: map[loads.Key]loads.Entry{}, probes: map[loads.Key]opinions{}}
}

// collect publishes what has changed in the picker. The verdicts of routing and of loads have the same values.
func (v *view) collect(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.scratch = v.picker.TakeChanged(v.scratch[:0], now)
	for i := range v.scratch {
		own := &v.scratch[i]
		e := v.entry(loads.Key{ID: own.ID, Incarnation: own.Incarnation})
		e.InFlight, e.Prefill, e.Verdict, e.Succeeded = own.InFlight, own.Prefill, loads.Verdict(own.Verdict), own.Succeeded
		v.publish(e)
	}
	v.placed, v.told = v.picker.TakePlacements(v.placed[:0]), v.told[:0]
	for _, p := range v.placed {
		v.told = append(v.told, places.Placement(p))
	}
	v.places.Add(v.told)
}

// placesHeard hands on what another router placed.
func (v *view) placesHeard(origin string, told []places.Placement, now time.Time) {
	heard := make([]routing.Placement, len(told))
	for i, p := range told {
		heard[i] = routing.Placement(p)
	}
	v.picker.HearPlacements(origin, heard, now)
}

// probed publishes what this router's own probes say.
func (v *view) probed(key loads.Key, result loads.Probe) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.entry(key)
	e.Probe = result
	v.publish(e)
}

// entry is called with mu held, like publish.
func (v *view) entry(key loads.Key) loads.Entry {
	e := v.entries[key]
	e.ID, e.Incarnation = key.ID, key.Incarnation
	return e
}

func (v *view) publish(e loads.Entry) {
	if (e == loads.Entry{ID: e.ID, Incarnation: e.Incarnation}) {
		delete(v.entries, e.Key()) // at rest: nothing to remember
	} else {
		v.entries[e.Key()] = e
	}
	v.publisher.Set(e)
}

// heard hands the others' sums to the picker, and reports whether what they say of a backend's health is new. Calls must
// not overlap.
func (v *view) heard(sums []loads.Sum, now time.Time) (news bool) {
	peers := make([]routing.PeerLoad, len(sums))
	for i, s := range sums {
		peers[i] = routing.PeerLoad{
			ID: s.ID, Incarnation: s.Incarnation, InFlight: s.InFlight, Prefill: s.Prefill, Ejected: s.Ejected, Refused: s.Refused,
		}
		news = v.note(s.Key, opinions{s.Ready, s.Dead}) || news
	}
	v.picker.SetPeers(peers, now)
	return news
}

// note reports whether the opinions on a backend are others than before.
func (v *view) note(key loads.Key, is opinions) bool {
	was := v.probes[key]
	if is == (opinions{}) {
		delete(v.probes, key)
	} else {
		v.probes[key] = is
	}
	return is != was
}
