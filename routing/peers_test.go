package routing

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func (b *bench) take() []Own {
	own := b.TakeChanged(nil, b.now)
	slices.SortFunc(own, func(a, b Own) int { return cmp.Compare(a.ID, b.ID) })
	return own
}

// rung reports whether Changed has a value, and takes it.
func (b *bench) rung() bool {
	select {
	case <-b.Changed():
		return true
	default:
		return false
	}
}

func wantOwn(t *testing.T, what string, got []Own, want ...Own) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTakeChanged(t *testing.T) {
	b := newBench(t, fleet(t, 1, policy()))
	rest := Own{ID: "gpu-0", Incarnation: 1}
	if b.take() != nil {
		t.Error("noted before anybody listened")
	}
	if !b.rung() {
		t.Error("what was there before does not ring")
	}
	wantOwn(t, "at first", b.take(), rest)
	if b.rung() {
		t.Error("rings without a change")
	}
	l := b.pick("x:1000")
	other := b.pick("x:1000")
	if !b.rung() || b.rung() {
		t.Error("want one ring for two changes")
	}
	work := b.load("gpu-0").Prefill / 2
	two := Own{ID: "gpu-0", Incarnation: 1, InFlight: 2, Prefill: 2 * work}
	wantOwn(t, "two picks", b.take(), two)
	wantOwn(t, "again", b.take())
	wantOwn(t, "all", b.Own(nil, b.now), two)
	l.FirstToken(b.now)
	one := two
	one.Prefill = work
	wantOwn(t, "a first token", b.take(), one)
	l.Report(Succeeded, b.now)
	one.Succeeded = true
	wantOwn(t, "a success", b.take(), one)
	b.now = b.now.Add(10 * time.Second)
	other.Report(Succeeded, b.now)
	l.Release()
	other.Release()
	rest.Succeeded = true
	wantOwn(t, "released", b.take(), rest)
	b.now = b.now.Add(29 * time.Second)
	wantOwn(t, "29 s after a success", b.take())
	b.now = b.now.Add(time.Second)
	rest.Succeeded = false
	wantOwn(t, "30 s after a success", b.take(), rest)
	b.now = b.now.Add(time.Hour)
	wantOwn(t, "at rest", b.take())
	wantOwn(t, "all at rest", b.Own(nil, b.now))
	if len(b.told)+len(b.dirty) != 0 {
		t.Error("something is kept")
	}
}

// The opinion that is told is this replica's own, as long as it holds it.
func TestOwnVerdicts(t *testing.T) {
	b, rank := homeFleet(t, 5)
	verdict := func() Verdict {
		for _, o := range b.Own(nil, b.now) {
			if o.ID == rank[0] {
				return o.Verdict
			}
		}
		return VerdictWell
	}
	b.Changed()
	for range 3 {
		b.report(Failed)
	}
	if got := verdict(); got != VerdictEjected {
		t.Errorf("after failures: %d", got)
	}
	b.now = b.now.Add(5 * time.Second)
	b.take()
	if got := verdict(); got != VerdictEjected {
		t.Errorf("on probation: %d", got)
	}
	b.report(Refused)
	if got := verdict(); got != VerdictRefused {
		t.Errorf("after a refused connection: %d", got)
	}
	b.now = b.now.Add(10 * time.Second)
	b.take()
	b.report(Succeeded)
	if got := b.take(); len(got) != 1 || got[0].Verdict != VerdictWell || !got[0].Succeeded {
		t.Errorf("after a success: %+v", got)
	}
	b.SetPeers([]PeerLoad{{ID: rank[1], Incarnation: 1, Refused: 3}}, b.now)
	if !b.load(rank[1]).Rumoured {
		t.Error("not rumoured")
	}
	for _, o := range b.Own(nil, b.now) {
		if o.Verdict != VerdictWell {
			t.Errorf("a rumour was passed on: %+v", o)
		}
	}
}

// What leaves the fleet is counted until it is done, and then said to be at rest.
func TestOwnOfWhatLeft(t *testing.T) {
	b := newBench(t, fleet(t, 2, policy()))
	b.Changed()
	l := b.pick("x")
	id := l.Backend.ID
	l.Report(Succeeded, b.now)
	b.take()
	b.SetEpoch(apply(t, b.Epoch(), Change{RemoveBackends: []string{id}}))
	wantOwn(t, "removed", b.take(), Own{ID: id, Incarnation: 1, InFlight: 1, Prefill: l.prefill})
	b.SetPeers([]PeerLoad{{ID: id, Incarnation: 1, InFlight: 7}}, b.now)
	for _, l := range b.Snapshot(b.now) {
		if l.PeerInFlight != 0 {
			t.Errorf("%+v", l)
		}
	}
	l.Release()
	wantOwn(t, "done", b.take(), Own{ID: id, Incarnation: 1})
	if len(b.loads) != 1 {
		t.Errorf("%d records", len(b.loads))
	}
	b.now = b.now.Add(time.Minute)
	wantOwn(t, "forgotten", b.take(), Own{ID: id, Incarnation: 1})
	if wantOwn(t, "at last", b.take()); len(b.told)+len(b.dirty) != 0 {
		t.Error("something is kept")
	}
}

// A generation that begins with other content may use a name and incarnation again:
// what is told then is about the one that is in the fleet.
func TestOwnOfAnotherGeneration(t *testing.T) {
	b := newBench(t, fleet(t, 1, policy()))
	b.Changed()
	old := b.pick("x")
	i := b.Epoch().Image()
	i.Generation, i.Backends[0].URL = 2, "http://elsewhere:1"
	e, err := i.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	b.SetEpoch(e)
	wantOwn(t, "moved", b.take(), Own{ID: "gpu-0", Incarnation: 1})
	b.pick("x")
	old.Release()
	wantOwn(t, "both changed", b.take(), Own{ID: "gpu-0", Incarnation: 1, InFlight: 1})
}

func TestSetPeers(t *testing.T) {
	b := newBench(t, fleet(t, 3, policy()))
	b.SetPeers([]PeerLoad{
		{ID: "gpu-0", Incarnation: 1, InFlight: 3, Prefill: 500},
		{ID: "gpu-1", Incarnation: 2, InFlight: 3}, // not this incarnation
		{ID: "gpu-7", Incarnation: 1, InFlight: 3}, // not in the fleet
		{ID: "gpu-2", Incarnation: 1, InFlight: -3, Prefill: -1},
	}, b.now)
	for id, want := range map[string]int{"gpu-0": 3, "gpu-1": 0, "gpu-2": 0} {
		if l := b.load(id); l.PeerInFlight != want || l.InFlight != 0 || l.PeerPrefill < 0 {
			t.Errorf("%+v", l)
		}
	}
	pl := b.place("x")
	for _, c := range b.Explain(&pl, b.now) {
		if l := b.load(c.Backend.ID); c.PeerInFlight != l.PeerInFlight || c.PeerPrefill != l.PeerPrefill || c.InFlight != 0 {
			t.Errorf("%+v", c)
		}
	}
	// Only what is listed changes, and a new epoch changes nothing.
	b.SetPeers([]PeerLoad{{ID: "gpu-1", Incarnation: 1, InFlight: 1}}, b.now)
	b.SetEpoch(apply(t, b.Epoch(), Change{Drain: []string{"gpu-0"}}))
	if l := b.load("gpu-0"); l.PeerInFlight != 3 || l.PeerPrefill != 500 {
		t.Errorf("%+v", l)
	}
	b.SetPeers([]PeerLoad{{ID: "gpu-0", Incarnation: 1}}, b.now)
	if l := b.load("gpu-0"); l.PeerInFlight != 0 || l.PeerPrefill != 0 {
		t.Errorf("%+v", l)
	}
}

// Requests are counted by who has them: the fewest own, of equals the fewest of all.
func TestLeastPrefersOwnCounts(t *testing.T) {
	b := newBench(t, fleet(t, 3, Policy{Strategy: LeastOutstandingRequests}))
	b.SetPeers([]PeerLoad{{ID: "gpu-0", Incarnation: 1, InFlight: 5}, {ID: "gpu-1", Incarnation: 1, InFlight: 2}, {ID: "gpu-2", Incarnation: 1, InFlight: 9}}, b.now)
	for i, want := range []string{"gpu-1", "gpu-0", "gpu-2", "gpu-1"} {
		if l := b.pick("x"); l.Backend.ID != want {
			t.Errorf("request %d to %s, want %s", i, l.Backend.ID, want)
		}
	}
}

// Every strategy that looks at loads counts what the peers have like its own, but for the one that tells them apart.
func TestPeersCountLikeOwn(t *testing.T) {
	for _, p := range allPolicies() {
		if p.Strategy == LeastOutstandingRequests {
			continue
		}
		alone, shared := newBench(t, fleet(t, 5, p, maxInflight(9))), newBench(t, fleet(t, 5, p, maxInflight(9)))
		for i := range 60 {
			text := fmt.Sprintf("%d:%d", i%4, 100*(i%7))
			want, err := alone.try(text)
			if err != nil {
				// All are full for the one, so they are for the other.
				if _, other := shared.try(text); other == nil || other.Error() != err.Error() {
					t.Fatalf("%v: request %d: %v, with peers %v", p, i, err, other)
				}
				continue
			}
			var sums []PeerLoad
			own := map[string]Own{}
			for _, o := range shared.Own(nil, shared.now) {
				own[o.ID] = o
			}
			got := shared.pick(text)
			if got.Backend.ID != want.Backend.ID || got.Decision != want.Decision {
				t.Fatalf("%v: request %d to %s (%s), want %s (%s)", p, i, got.Backend.ID, got.Decision, want.Backend.ID, want.Decision)
			}
			if i%2 == 0 { // every other request is a peer's
				got.Release()
			}
			for _, o := range alone.Own(nil, alone.now) {
				l := shared.load(o.ID)
				sums = append(sums, PeerLoad{ID: o.ID, Incarnation: 1, InFlight: o.InFlight - l.InFlight, Prefill: o.Prefill - l.Prefill})
			}
			shared.SetPeers(sums, shared.now)
		}
	}
}

// Row 5: at low load nothing spills, however many replicas share it, and ties spread.
func TestLowLoadWithPeers(t *testing.T) {
	all := newRouters(t, 8, fleet(t, 16, Policy{Strategy: PrefixAware, PrefixLength: 1024}))
	for i := range 100 {
		l := all[i%8].pick(fmt.Sprint(i))
		exchange(all)
		if l.Decision != DecisionHome {
			t.Errorf("request %d: %s", i, l.Decision)
		}
		l.Release()
	}
	all = newRouters(t, 8, fleet(t, 4, Policy{Strategy: LeastOutstandingRequests}))
	n := map[string]int{}
	for i := range 400 {
		all[i%8].draw = uint64(1000 * i)
		l := all[i%8].pick("x")
		exchange(all)
		n[l.Backend.ID]++
		l.Release()
	}
	for id, k := range n {
		if k < 60 || k > 140 {
			t.Errorf("%s was picked %d of 400 times", id, k)
		}
	}
}
