package routing

import (
	"errors"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLeaseCountsOnce(t *testing.T) {
	b := newBench(t, fleet(t, 3, policy()))
	l := b.pick("x:1000")
	if got := b.load(l.Backend.ID); got.InFlight != 1 || got.Picks != 1 || got.Prefill != int64(work(0, 1000)/2) {
		t.Errorf("%+v", got)
	}
	l.FirstToken(b.now)
	l.FirstToken(b.now)
	if got := b.load(l.Backend.ID); got.InFlight != 1 || got.Prefill != 0 {
		t.Errorf("%+v", got)
	}
	l.Release()
	l.Release()
	l.FirstToken(b.now)
	b.atRest()
	b.pick("x:1000").Release() // without a first token
	b.atRest()
}

// Row 8: nothing but the end of a request lowers a count.
func TestEpochsKeepCounts(t *testing.T) {
	b := newBench(t, fleet(t, 3, policy()))
	l := b.pick("x:1000")
	l.Report(Failed, b.now)
	before := b.load(l.Backend.ID)
	for _, c := range []Change{
		{},
		{PutBackends: []Backend{backend(7)}},
		{PutBackends: []Backend{l.Backend}},
		{Drain: []string{l.Backend.ID}},
		{PutBackends: []Backend{l.Backend}}, // and back
		{PutEndpoints: []Endpoint{{Name: "demo", Variants: []Variant{{Name: "AllTraffic", Weight: 1, Policy: Policy{Strategy: Random}}}}}},
	} {
		b.SetEpoch(apply(t, b.Epoch(), c))
		after := b.load(l.Backend.ID)
		after.Backend = before.Backend
		if after != before {
			t.Errorf("after %+v: %+v, before %+v", c, after, before)
		}
	}
	b.Explain(new(b.place("x")), b.now)
	l.Release()
	b.atRest()
}

func TestOlderEpochsAreIgnored(t *testing.T) {
	first := fleet(t, 1, policy())
	second := apply(t, first, Change{})
	b := newBench(t, second)
	b.SetEpoch(first)
	if b.Epoch() != second {
		t.Error("an older number")
	}
	newer := apply(t, NewEpoch(2, 42), Change{})
	b.SetEpoch(newer)
	b.SetEpoch(second)
	if b.Epoch() != newer {
		t.Error("an older generation")
	}
}

// Row 22: the same name at a new address is a new server.
func TestNewAddressStartsAnew(t *testing.T) {
	b := newBench(t, fleet(t, 1, policy()))
	old := b.pick("x:1000")
	moved := backend(0)
	moved.URL = "http://elsewhere:1"
	b.SetEpoch(apply(t, b.Epoch(), Change{PutBackends: []Backend{moved}}))
	if l := b.load("gpu-0"); l.InFlight != 0 || l.Picks != 0 || l.Backend.Incarnation <= old.Backend.Incarnation {
		t.Errorf("%+v", l)
	}
	next := b.pick("x:1000")
	if next.Backend.URL != "http://elsewhere:1" || old.Backend.URL == next.Backend.URL {
		t.Errorf("%+v", next.Backend)
	}
	if n := len(b.Snapshot(b.now)); n != 2 {
		t.Errorf("%d records, one of them still carries a request", n)
	}
	old.Report(Refused, b.now) // is not the new one's fault
	old.Release()
	if l := b.load("gpu-0"); l.InFlight != 1 || l.Ejections != 0 {
		t.Errorf("%+v", l)
	}
	next.Release()
	if n := len(b.Snapshot(b.now)); n != 1 {
		t.Errorf("%d records", n)
	}
	b.atRest()
}

// Row 20, as far as the picker goes: a place that was mapped before a drain does
// not lead to the draining server.
func TestPlaceFromAnOlderEpoch(t *testing.T) {
	b := newBench(t, fleet(t, 3, policy()))
	pl := b.place("x:1000")
	next := apply(t, b.Epoch(), Change{Drain: []string{pl.Home()}})
	b.SetEpoch(next)
	l, err := b.Pick(&pl, nil, 1, b.now)
	if err != nil || l.Backend.ID == pl.Home() || l.Epoch != next || l.Decision != DecisionHome {
		t.Errorf("%+v, %v", l, err)
	}
	b.SetEpoch(apply(t, b.Epoch(), Change{RemoveBackends: []string{"gpu-0", "gpu-1", "gpu-2"}, RemoveEndpoints: []string{"demo"}}))
	if _, err := b.Pick(&pl, nil, 1, b.now); !errors.Is(err, ErrNoBackend) {
		t.Error(err)
	}
	l.Release()
	if n := len(b.Snapshot(b.now)); n != 0 {
		t.Errorf("%d records of nothing", n)
	}
	if _, err := b.Pick(&Place{}, nil, 1, b.now); !errors.Is(err, ErrNoBackend) {
		t.Errorf("the zero place: %v", err)
	}
}

func TestOnlyActiveBackendsArePicked(t *testing.T) {
	states := []State{Joining, Active, Draining, Joining}
	next := 0
	e := fleet(t, 4, Policy{Strategy: Random}, func(b *Backend) { b.State = states[next]; next++ })
	b := newBench(t, e)
	for range 50 {
		if l := b.pick("x"); l.Backend.ID != "gpu-1" {
			t.Fatal(l.Backend.ID)
		}
	}
}

// Many goroutines, one truth.
func TestConcurrentUse(t *testing.T) {
	b := newBench(t, fleet(t, 4, policy(), maxInflight(3)))
	other := apply(t, b.Epoch(), Change{Drain: []string{"gpu-2"}})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				pl := b.place("x:100")
				l, err := b.Pick(&pl, nil, uint64(i), b.now)
				if errors.Is(err, ErrSaturated) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if l.FirstToken(b.now); i%3 == 0 {
					l.Report(Succeeded, b.now)
				}
				if i == 100 && w == 0 {
					b.SetEpoch(other)
				}
				l.Release()
			}
		})
	}
	wg.Wait()
	b.atRest()
}

// Row 1, as far as the picker goes: whatever is done in whatever order, the
// counts are those of the leases that live, no cap is ever passed, and at rest all
// is zero.
func TestCountsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{bench: newBench(t, fleet(t, 5, rapid.SampledFrom(allPolicies()).Draw(rt, "policy"), maxInflight(4)))}
		rt.Repeat(map[string]func(*rapid.T){
			"pick": m.pick, "first": m.first, "release": m.release, "report": m.report,
			"fleet": m.fleet, "wait": m.wait, "": m.check,
		})
		for _, l := range m.leases {
			l.Release()
		}
		m.leases = nil
		m.check(rt)
		m.atRest()
	})
}

// machine drives a picker and remembers the leases.
type machine struct {
	*bench
	leases []*Lease
}

func (m *machine) pick(rt *rapid.T) {
	var tried []string
	if rapid.Bool().Draw(rt, "retry") {
		tried = []string{"gpu-1", "gpu-2"}
	}
	l, err := m.try(rapid.StringMatching(`[a-c]:[0-9]{1,4}`).Draw(rt, "text"), tried...)
	if err != nil {
		if !errors.Is(err, ErrNoBackend) && !errors.Is(err, ErrSaturated) {
			rt.Fatal(err)
		}
		return
	}
	if got := m.load(l.Backend.ID); got.Backend.State != Active || got.InFlight > 4 {
		rt.Fatalf("picked %+v", got)
	}
	m.leases = append(m.leases, l)
}

// lease draws one of those that were not released.
func (m *machine) lease(rt *rapid.T) int {
	if len(m.leases) == 0 {
		rt.Skip("no lease")
	}
	return rapid.IntRange(0, len(m.leases)-1).Draw(rt, "lease")
}

func (m *machine) first(rt *rapid.T) { m.leases[m.lease(rt)].FirstToken(m.now) }

func (m *machine) release(rt *rapid.T) {
	i := m.lease(rt)
	m.leases[i].Release()
	m.leases[i].Release()
	m.leases = append(m.leases[:i], m.leases[i+1:]...)
}

func (m *machine) report(rt *rapid.T) {
	l := m.leases[m.lease(rt)]
	if rapid.Bool().Draw(rt, "busy") {
		l.Busy(m.now.Add(time.Second))
		return
	}
	l.Report(Outcome(rapid.IntRange(0, 3).Draw(rt, "outcome")), m.now)
}

func (m *machine) wait(rt *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
}

// fleet puts, moves, drains or removes a backend.
func (m *machine) fleet(rt *rapid.T) {
	b := backend(rapid.IntRange(0, 6).Draw(rt, "backend"))
	b.MaxInflight = 4
	c := Change{PutBackends: []Backend{b}}
	switch rapid.IntRange(0, 3).Draw(rt, "change") {
	case 0:
		c.PutBackends[0].URL = "http://elsewhere:1"
	case 1:
		c = Change{Drain: []string{b.ID}}
	case 2:
		c = Change{RemoveBackends: []string{b.ID}}
	}
	if next, err := m.Epoch().Apply(c); err == nil {
		m.SetEpoch(next)
	}
}

func (m *machine) check(rt *rapid.T) {
	inflight, charged := map[identity]int{}, map[identity]int64{}
	for _, l := range m.leases {
		inflight[l.Backend.identity()]++
		charged[l.Backend.identity()] += l.prefill
	}
	listed := map[identity]bool{}
	for _, b := range m.Epoch().Backends() {
		listed[b.identity()] = true
	}
	for _, l := range m.Snapshot(m.now) {
		id := l.Backend.identity()
		if l.InFlight != inflight[id] || l.Prefill != charged[id] {
			rt.Fatalf("%+v, but %d leases with %d prefill", l, inflight[id], charged[id])
		}
		if l.Gone == listed[id] || l.Gone && l.InFlight == 0 {
			rt.Fatalf("%+v, listed %v", l, listed[id])
		}
		delete(inflight, id)
	}
	if len(inflight) > 0 {
		rt.Fatalf("no record of %v", inflight)
	}
}
