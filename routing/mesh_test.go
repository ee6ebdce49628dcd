package routing

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmring/warmring/gossip/loads"
)

// router is a replica as far as loads go: a picker, what it publishes and what it
// heard, wired as a node wires them but without a network.
type router struct {
	*bench
	name      string
	publisher *loads.Publisher
	heard     *loads.Table
	own       []Own
	sums      []loads.Sum
	peers     []PeerLoad
}

func newRouter(tb testing.TB, i int, e *Epoch) *router {
	tb.Helper()
	name := fmt.Sprint("router-", i)
	r := &router{bench: newBench(tb, e), name: name, publisher: loads.NewPublisher(name), heard: loads.NewTable()}
	r.Changed() // listens, from here on
	return r
}

func newRouters(tb testing.TB, n int, e *Epoch) []*router {
	tb.Helper()
	var all []*router
	for i := range n {
		all = append(all, newRouter(tb, i, e))
	}
	return all
}

// publish moves what changed from the picker to the publisher.
func (r *router) publish() {
	r.own = r.TakeChanged(r.own[:0], r.now)
	for _, o := range r.own {
		r.publisher.Set(loads.Entry{
			ID: o.ID, Incarnation: o.Incarnation, InFlight: o.InFlight, Prefill: o.Prefill,
			Verdict: loads.Verdict(o.Verdict), Succeeded: o.Succeeded,
		})
	}
}

// hear merges a frame; a gap is closed by a whole one.
func (r *router) hear(f loads.Frame, from *router) {
	changed, err := r.heard.Merge(f, r.now)
	if errors.Is(err, loads.ErrGap) {
		changed, err = r.heard.Merge(from.publisher.Whole(), r.now)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.follow(changed)
}

// follow passes the sums of the keys on to the picker.
func (r *router) follow(keys []loads.Key) {
	r.sums, r.peers = r.heard.Sums(keys, r.sums[:0]), r.peers[:0]
	for _, s := range r.sums {
		r.peers = append(r.peers, PeerLoad{
			ID: s.ID, Incarnation: s.Incarnation, InFlight: s.InFlight, Prefill: s.Prefill, Ejected: s.Ejected, Refused: s.Refused,
		})
	}
	r.SetPeers(r.peers, r.now)
}

// setEpoch is SetEpoch and what its caller owes to it.
func (r *router) setEpoch(e *Epoch) {
	r.SetEpoch(e)
	var keys []loads.Key
	for _, s := range r.heard.All(nil) {
		keys = append(keys, s.Key)
	}
	r.follow(keys)
}

// exchange tells everybody everything.
func exchange(all []*router) {
	for _, from := range all {
		from.publish()
		for _, to := range all {
			if to != from {
				to.hear(from.publisher.Delta(0), from)
			}
		}
	}
}

// Row 43: the last slot is taken on all replicas at once. That passes the cap by one
// for each further replica, and after one exchange nobody takes more.
func TestLastSlotTakenTwice(t *testing.T) {
	for _, n := range []int{2, 4} {
		all := newRouters(t, n, fleet(t, 1, policy(), maxInflight(10)))
		var leases []*Lease
		for range 9 {
			leases = append(leases, all[0].pick("x"))
		}
		exchange(all)
		for _, r := range all {
			leases = append(leases, r.pick("x"))
			if _, err := r.try("x"); !errors.Is(err, ErrSaturated) {
				t.Errorf("%s took more than the last slot: %v", r.name, err)
			}
		}
		if over := len(leases) - 10; over != n-1 {
			t.Errorf("%d replicas: %d above the cap", n, over)
		}
		exchange(all)
		for range n - 1 { // what is above the cap has to end first
			leases[0].Release()
			leases = leases[1:]
			exchange(all)
			for _, r := range all {
				if _, err := r.try("x"); !errors.Is(err, ErrSaturated) {
					t.Errorf("%s: %v with %d of 10", r.name, err, len(leases))
				}
			}
		}
		leases[0].Release()
		exchange(all)
		all[1].pick("x")
	}
}

// Rows 1 and 16, as far as the picker goes: whatever the replicas do, and however
// frames are dropped, repeated, delayed and reordered, nobody ever counts below zero
// or counts what nobody has; at rest everything is zero everywhere.
func TestCountsOfSeveralReplicas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := newRouters(t, 3, fleet(t, 4, rapid.SampledFrom(allPolicies()).Draw(rt, "policy")))
		m := &meshMachine{routers: all, most: map[loads.Key]int{}}
		rt.Repeat(map[string]func(*rapid.T){
			"pick": m.pick, "end": m.end, "end all": m.endAll, "send": m.send, "deliver": m.deliver,
			"drop": m.drop, "wait": m.wait, "fleet": m.fleet, "": m.check,
		})
		for len(m.leases) > 0 {
			m.end(rt)
		}
		m.settle()
		for _, r := range all {
			r.atRest()
			for _, l := range r.Snapshot(r.now) {
				if l.PeerInFlight != 0 || l.PeerPrefill != 0 {
					rt.Fatalf("%s at rest: %+v", r.name, l)
				}
			}
			for _, s := range r.heard.All(nil) {
				if s.InFlight != 0 || s.Prefill != 0 || s.Succeeded != 0 {
					rt.Fatalf("%s still hears %+v", r.name, s)
				}
			}
		}
	})
}

// meshMachine drives three routers; frames on their way wait in flight.
type meshMachine struct {
	routers []*router
	leases  []*Lease
	flight  []message
	most    map[loads.Key]int // in flight ever, by all
}

type message struct {
	frame    loads.Frame
	from, to *router
}

func (m *meshMachine) router(rt *rapid.T) *router {
	return rapid.SampledFrom(m.routers).Draw(rt, "router")
}

func (m *meshMachine) pick(rt *rapid.T) {
	l, err := m.router(rt).try(rapid.StringMatching(`[a-c]:[0-9]{1,4}`).Draw(rt, "text"))
	if err != nil {
		return
	}
	m.leases = append(m.leases, l)
	now := map[loads.Key]int{}
	for _, l := range m.leases {
		now[loads.Key{ID: l.Backend.ID, Incarnation: l.Backend.Incarnation}]++
	}
	for key, n := range now {
		m.most[key] = max(m.most[key], n)
	}
}

func (m *meshMachine) end(rt *rapid.T) {
	if len(m.leases) == 0 {
		rt.Skip("no lease")
	}
	i := rapid.IntRange(0, len(m.leases)-1).Draw(rt, "lease")
	l := m.leases[i]
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		l.FirstToken(epochStart)
		return
	case 1:
		l.Report(Outcome(rapid.IntRange(0, 3).Draw(rt, "outcome")), m.routers[0].now)
	}
	l.Release()
	m.leases = append(m.leases[:i], m.leases[i+1:]...)
}

func (m *meshMachine) endAll(*rapid.T) {
	for _, l := range m.leases {
		l.Release()
	}
	m.leases = nil
}

func (m *meshMachine) send(rt *rapid.T) {
	from, to := m.router(rt), m.router(rt)
	if from == to {
		return
	}
	from.publish()
	f := from.publisher.Whole()
	if rapid.Bool().Draw(rt, "delta") {
		f = from.publisher.Delta(rapid.Uint64Range(0, f.Sequence).Draw(rt, "since"))
	}
	m.flight = append(m.flight, message{f, from, to})
}

// deliver takes any message, which may be delivered again.
func (m *meshMachine) deliver(rt *rapid.T) {
	if len(m.flight) == 0 {
		rt.Skip("no message")
	}
	msg := rapid.SampledFrom(m.flight).Draw(rt, "message")
	msg.to.hear(msg.frame, msg.from)
}

// drop forgets a peer and, sometimes, what was under way.
func (m *meshMachine) drop(rt *rapid.T) {
	r := m.router(rt)
	r.follow(r.heard.Drop(m.router(rt).name))
	if rapid.Bool().Draw(rt, "lose") {
		m.flight = nil
	}
}

func (m *meshMachine) wait(rt *rapid.T) {
	d := time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second
	for _, r := range m.routers {
		r.now = r.now.Add(d)
	}
}

// fleet changes the epoch; routers take it up at different times.
func (m *meshMachine) fleet(rt *rapid.T) {
	newest := m.routers[0].Epoch()
	for _, r := range m.routers {
		if r.Epoch().Compare(newest) > 0 {
			newest = r.Epoch()
		}
	}
	b := backend(rapid.IntRange(0, 4).Draw(rt, "backend"))
	c := Change{PutBackends: []Backend{b}}
	switch rapid.IntRange(0, 2).Draw(rt, "change") {
	case 0:
		c = Change{RemoveBackends: []string{b.ID}}
	case 1:
		c = Change{}
	}
	if next, err := newest.Apply(c); err == nil {
		newest = next
	}
	m.router(rt).setEpoch(newest)
}

// settle lets everything be told.
func (m *meshMachine) settle() {
	newest := m.routers[0].Epoch()
	for _, r := range m.routers {
		if r.Epoch().Compare(newest) > 0 {
			newest = r.Epoch()
		}
	}
	for _, r := range m.routers {
		r.now = r.now.Add(time.Minute)
		r.setEpoch(newest)
	}
	exchange(m.routers)
}

func (m *meshMachine) check(rt *rapid.T) {
	for _, r := range m.routers {
		for _, l := range r.Snapshot(r.now) {
			key := loads.Key{ID: l.Backend.ID, Incarnation: l.Backend.Incarnation}
			if l.PeerInFlight < 0 || l.PeerPrefill < 0 || l.InFlight < 0 || l.Prefill < 0 {
				rt.Fatalf("%s: below zero: %+v", r.name, l)
			}
			if l.PeerInFlight > 2*m.most[key] {
				rt.Fatalf("%s: %d in flight at two peers, never more than %d at all", r.name, l.PeerInFlight, m.most[key])
			}
		}
	}
}
