package routing

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// homeFleet is a bench of n servers and the prompt's ranking.
func homeFleet(t *testing.T, n int, options ...func(*Backend)) (*bench, []string) {
	t.Helper()
	b := newBench(t, fleet(t, n, Policy{Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 100}, options...))
	return b, b.ranking("x")
}

// report picks for the prompt, which is long enough to stay at home under some
// load, and reports the outcome.
func (b *bench) report(o Outcome) *Lease {
	b.Helper()
	l := b.pick("x:20000")
	l.Report(o, b.now)
	l.Release()
	return l
}

// Row 21: new requests avoid a server from its first refusal on.
func TestRefusedEjectsAtOnce(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.report(Refused)
	if l := b.load(rank[0]); !l.EjectedUntil.Equal(b.now.Add(5*time.Second)) || l.Ejections != 1 {
		t.Errorf("%+v", l)
	}
	for range 20 {
		// The next of the ranking stands in, and keeps the prompt.
		l := b.pick("x:1000")
		l.FirstToken(b.now)
		if l.Backend.ID != rank[1] || l.Decision != DecisionOverflow || l.Home != rank[0] {
			t.Fatalf("%s, %s", l.Backend.ID, l.Decision)
		}
	}
	// The others keep their homes.
	for i := range 50 {
		l := b.pick(fmt.Sprintf("other %d:1000", i))
		if l.Home != rank[0] && l.Home != rank[1] && l.Decision != DecisionHome {
			t.Errorf("a key of %s went to %s", l.Home, l.Backend.ID)
		}
		l.Release()
	}
}

func TestThreeFailuresInARowEject(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.report(Failed)
	b.report(Failed)
	b.report(Succeeded)
	b.report(Failed)
	b.report(Failed)
	if l := b.load(rank[0]); !l.EjectedUntil.IsZero() || l.Failures != 2 {
		t.Fatalf("%+v", l)
	}
	b.report(Failed)
	if l := b.load(rank[0]); l.EjectedUntil.IsZero() || l.Failures != 0 {
		t.Fatalf("%+v", l)
	}
}

// Row 27: a server that takes requests and never answers is ejected by that; one
// that answered somebody else meanwhile is only slow for this one.
func TestStalled(t *testing.T) {
	b, rank := homeFleet(t, 5)
	stalled, other := b.pick("x:1000"), b.pick("x:1000")
	other.Report(Succeeded, b.now)
	stalled.Report(Stalled, b.now)
	if l := b.load(rank[0]); !l.EjectedUntil.IsZero() {
		t.Error("ejected in spite of a success")
	}
	late := b.pick("x:1000")
	late.Report(Stalled, b.now)
	if l := b.load(rank[0]); l.EjectedUntil.IsZero() {
		t.Error("not ejected")
	}
}

// A burst that fails together is one ejection, and so is what straggles in later.
func TestBurstOfFailuresEjectsOnce(t *testing.T) {
	b, rank := homeFleet(t, 5)
	var leases []*Lease
	for range 10 {
		leases = append(leases, b.pick("x:5000"))
		leases[len(leases)-1].FirstToken(b.now)
	}
	for _, l := range leases[:8] {
		l.Report(Refused, b.now)
	}
	if l := b.load(rank[0]); l.Ejections != 1 {
		t.Errorf("%d ejections", l.Ejections)
	}
	leases[8].Report(Succeeded, b.now) // a stream that the dying server finished
	if l := b.load(rank[0]); l.EjectedUntil.IsZero() {
		t.Error("an old success ended the ejection")
	}
	b.now = b.now.Add(6 * time.Second)
	b.report(Succeeded)
	leases[9].Report(Refused, b.now)
	if l := b.load(rank[0]); l.Ejections != 0 {
		t.Error("an old failure ejected again")
	}
}

func TestOneProbeAtATime(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.report(Refused)
	b.now = b.now.Add(5 * time.Second)
	probe := b.pick("x")
	if probe.Backend.ID != rank[0] {
		t.Fatalf("no probe: %s", probe.Backend.ID)
	}
	for range 50 {
		if l := b.pick("x"); l.Backend.ID == rank[0] {
			t.Fatal("a second request during the probe")
		}
	}
	probe.Release() // its client left: nothing is known yet
	probe = b.pick("x:1000")
	if probe.Backend.ID != rank[0] {
		t.Fatal("no probe after one without an outcome")
	}
	probe.Report(Failed, b.now) // a single one is enough now
	probe.Release()
	if l := b.load(rank[0]); !l.EjectedUntil.Equal(b.now.Add(10 * time.Second)) {
		t.Errorf("%+v", l)
	}
	b.now = b.now.Add(10 * time.Second)
	b.report(Succeeded)
	for range 3 {
		if l := b.pick("x:1000"); l.Backend.ID != rank[0] {
			t.Error("not trusted after a success")
		}
	}
	b.now = b.now.Add(time.Second)
	b.report(Refused)
	if l := b.load(rank[0]); !l.EjectedUntil.Equal(b.now.Add(5 * time.Second)) {
		t.Errorf("the length of ejections was not reset: %+v", l)
	}
}

func TestEjectionsDouble(t *testing.T) {
	b, rank := homeFleet(t, 5)
	for _, want := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
		if l := b.report(Refused); l.Backend.ID != rank[0] {
			t.Fatalf("picked %s", l.Backend.ID)
		}
		until := b.load(rank[0]).EjectedUntil
		if got := until.Sub(b.now); got != time.Duration(want)*time.Second {
			t.Errorf("ejected for %v, want %d s", got, want)
		}
		b.now = until
	}
}

func TestFewAreEjected(t *testing.T) {
	for n, most := range map[int]int{1: 1, 2: 1, 4: 1, 10: 2, 20: 4} {
		b := newBench(t, fleet(t, n, Policy{Strategy: Random}))
		for range 20 * n {
			l := b.pick("x")
			l.Report(Refused, b.now)
			l.Release()
		}
		ejected := 0
		for _, l := range b.Snapshot(b.now) {
			if !l.EjectedUntil.IsZero() {
				ejected++
			}
		}
		if ejected != most {
			t.Errorf("%d of %d ejected, want %d", ejected, n, most)
		}
	}
}

// With fewer than half left, ejections are ignored.
func TestPanic(t *testing.T) {
	b := newBench(t, fleet(t, 10, Policy{Strategy: Random}))
	var ejected []string
	for len(ejected) < 2 {
		l := b.report(Refused)
		if b.load(l.Backend.ID).Ejections > 0 {
			ejected = append(ejected, l.Backend.ID)
		}
	}
	var drain []string
	for _, s := range b.Epoch().Backends() {
		if s.ID != ejected[0] && s.ID != ejected[1] {
			drain = append(drain, s.ID)
		}
	}
	reached := func() int {
		n := map[string]bool{}
		for range 100 {
			l := b.pick("x")
			n[l.Backend.ID] = true
			l.Release()
		}
		return len(n)
	}
	b.SetEpoch(apply(t, b.Epoch(), Change{Drain: drain[:6]}))
	if got := reached(); got != 2 {
		t.Errorf("2 of 4 left: %d reached", got)
	}
	b.SetEpoch(apply(t, b.Epoch(), Change{Drain: drain[6:7]}))
	if got := reached(); got != 3 {
		t.Errorf("1 of 3 left: %d reached", got)
	}
	// A single server is always asked.
	single := newBench(t, fleet(t, 1, policy()))
	for range 5 {
		single.report(Refused)
	}
	if l := single.load("gpu-0"); l.Ejections != 1 {
		t.Errorf("%d ejections while it could not be spared", l.Ejections)
	}
	single.report(Succeeded)
	if l := single.load("gpu-0"); l.Ejections != 0 || !l.EjectedUntil.IsZero() {
		t.Errorf("%+v after a success", l)
	}
}

// Row 38: a client's mistakes and long answers never eject; busy servers get less
// and are not ejected.
func TestLoadIsNotHealth(t *testing.T) {
	b, rank := homeFleet(t, 4)
	stream := b.pick("x:1000")
	for range 100 {
		b.report(Succeeded) // any status below 500
	}
	b.now = b.now.Add(24 * time.Hour)
	l := b.load(rank[0])
	if !l.EjectedUntil.IsZero() || l.Failures != 0 {
		t.Errorf("%+v", l)
	}
	stream.Busy(b.now.Add(2 * time.Second))
	stream.Busy(b.now.Add(time.Second)) // does not shorten it
	stream.Release()
	if l := b.pick("x"); l.Backend.ID != rank[1] {
		t.Errorf("%s while the home is busy", l.Backend.ID)
	}
	if l := b.load(rank[0]); !l.BusyUntil.Equal(b.now.Add(2*time.Second)) || !l.EjectedUntil.IsZero() {
		t.Errorf("%+v", l)
	}
	// Better a busy server than none.
	if l := b.pick("x", rank[1:]...); l.Backend.ID != rank[0] {
		t.Errorf("%s", l.Backend.ID)
	}
	b.now = b.now.Add(2 * time.Second)
	if l := b.pick("x:1000"); l.Backend.ID != rank[0] {
		t.Errorf("%s after the home was busy", l.Backend.ID)
	}
}

// An ejected server is not asked even when nobody else is left, but a full one may
// become free.
func TestEjectedAndOthersGone(t *testing.T) {
	b, rank := homeFleet(t, 2, maxInflight(1))
	b.report(Refused)
	if _, err := b.try("x", rank[1]); !errors.Is(err, ErrNoBackend) {
		t.Error(err)
	}
	b.pick("x")
	if _, err := b.try("x"); !errors.Is(err, ErrSaturated) {
		t.Error(err)
	}
}

// A draining server's failures are of no interest.
func TestNoEjectionWhileDraining(t *testing.T) {
	b, rank := homeFleet(t, 3)
	l := b.pick("x")
	b.SetEpoch(apply(t, b.Epoch(), Change{Drain: rank[:1]}))
	l.Report(Refused, b.now)
	l.Busy(b.now.Add(time.Second))
	l.Release()
	if l := b.load(rank[0]); l.Ejections != 0 {
		t.Errorf("%+v", l)
	}
}
