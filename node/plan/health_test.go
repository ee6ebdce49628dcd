package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

func TestEvictedAndBack(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.pass(2 * time.Minute)
	l.dead("b01")
	l.pass(30 * time.Second)
	l.want()
	l.next()
	l.want("evicted b01")
	l.ready("b01")
	l.pass(9 * time.Second)
	l.report("b01", Report{}) // not for long enough
	l.pass(time.Second)
	l.ready("b01")
	l.pass(10 * time.Second)
	l.want()
	l.next()
	l.want("ready b01")
}

func TestEvictionNeedsAMajorityForHalfAMinute(t *testing.T) {
	for name, step := range map[string]func(l *lab){
		"one of three":     func(l *lab) { l.report("b01", Report{Dead: Observers(l.in.Members, "b01")[2:]}) },
		"others than they": func(l *lab) { l.report("b01", Report{Dead: []string{"r7", "r8", "r9"}}) },
		"a success":        func(l *lab) { l.report("b01", Report{Dead: l.in.Members, Succeeded: true}) },
		"a break": func(l *lab) {
			l.dead("b01")
			if l.in.Now.Second()%20 == 0 {
				l.report("b01", Report{})
			}
		},
		"another incarnation": func(l *lab) { l.in.Reports[Key{"b01", 99}] = Report{Dead: l.in.Members} },
		"silence of a replica": func(l *lab) {
			l.dead("b01")
			l.in.Complete = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, fleet(5, "")...)
			l.pass(2 * time.Minute)
			for range 120 {
				step(l)
				l.pass(time.Second)
			}
			l.want()
		})
	}
}

func TestEvictionObservers(t *testing.T) {
	for _, tt := range []struct{ members, dead, evicted int }{
		{1, 1, 1}, {2, 1, 0}, {2, 2, 1}, {3, 1, 0}, {3, 2, 1}, {9, 1, 0}, {9, 2, 1}, {9, 3, 1},
	} {
		l := newLab(t, fleet(5, "")...)
		l.in.Members = nil
		for i := range tt.members {
			l.in.Members = append(l.in.Members, fmt.Sprintf("r%d", i))
		}
		l.report("b01", Report{Dead: Observers(l.in.Members, "b01")[:tt.dead]})
		l.pass(3 * time.Minute)
		if got := len(l.log); got != tt.evicted {
			t.Errorf("%+v: %v", tt, l.log)
		}
	}
}

func TestNewLeaderWaits(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.dead("b01")
	l.pass(time.Minute)
	l.want()
	l.next()
	l.want("evicted b01")
	// Another leadership begins anew: it does not know of the eviction, and waits again before its own.
	l.in.LeaderSince = l.in.Now
	l.ready("b01")
	l.dead("b02")
	l.pass(time.Minute)
	l.want("ready b01")
	l.next()
	l.want("evicted b02")
}

func TestNoEvictionWhenRoutersAreLost(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.in.Members = []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}
	l.pass(2 * time.Minute)
	l.in.Members = l.in.Members[:6]
	l.pass(time.Second)
	l.report("b01", Report{Dead: []string{"r1", "r2", "r3", "r4", "r5", "r6"}})
	l.pass(50 * time.Second)
	wantHeld(t, l.next(), HeldMembers, "b01")
	l.want()
	l.pass(15 * time.Second)
	l.want("evicted b01")
}

func TestEvictionRateAndFloor(t *testing.T) {
	l := newLab(t, fleet(40, "")...)
	l.pass(2 * time.Minute)
	for _, b := range l.in.Epoch.Backends() {
		l.dead(b.ID)
	}
	l.pass(31 * time.Second)
	if len(l.log) != 4 {
		t.Fatalf("%d of 40 are evicted in one minute", len(l.log))
	}
	wantHeld(t, l.next(), HeldRate, "b04")
	l.pass(time.Minute + time.Second)
	if len(l.log) != 8 {
		t.Errorf("%d after two minutes", len(l.log))
	}
	l.pass(time.Hour)
	if len(l.log) != 20 {
		t.Errorf("%d of 40 are evicted", len(l.log))
	}
	wantHeld(t, l.next(), HeldFloor, "b39")
}

// An eviction counts also where an operator drains or removes the backend before the planner looks again.
func TestEvictionOfWhatAnOperatorTookAway(t *testing.T) {
	for _, c := range []routing.Change{{PutBackends: []routing.Backend{backend("b01", routing.Draining, "")}}, {RemoveBackends: []string{"b01"}}} {
		l := newLab(t, fleet(6, "")...)
		l.pass(2 * time.Minute)
		l.dead("b01")
		for len(l.log) == 0 {
			l.in.Now = l.in.Now.Add(l.next().Again)
		}
		l.want("evicted b01")
		e, err := l.in.Epoch.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		l.in.Epoch = e
		l.dead("b02")
		l.pass(50 * time.Second)
		wantHeld(t, l.next(), HeldRate, "b02")
		if slices.Contains(l.log, "evicted b02") {
			t.Errorf("two of six are evicted in one minute: %v", l.log)
		}
		l.pass(20 * time.Second)
		if !slices.Contains(l.log, "evicted b02") {
			t.Errorf("the second is not evicted after the minute: %v", l.log)
		}
	}
}

// The last one of a variant is never evicted.
func TestLastOneStays(t *testing.T) {
	l := newLab(t, fleet(1, "")...)
	l.dead("b00")
	l.pass(time.Hour)
	l.want()
}

// Those that are dead for longest go first.
func TestEvictionOrder(t *testing.T) {
	l := newLab(t, fleet(9, "")...)
	l.dead("b07")
	l.pass(time.Second)
	l.dead("b01")
	l.pass(3 * time.Minute)
	l.want("evicted b07", "evicted b01")
}

// A stall of the leader proves nothing: it did not see what was between.
func TestStalledLeader(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.pass(2 * time.Minute)
	l.dead("b01")
	l.next()
	l.in.Now = l.in.Now.Add(time.Hour)
	l.pass(29 * time.Second)
	l.want()
	l.pass(2 * time.Second)
	l.want("evicted b01")
}

// A server that dies and returns all the time (scenario 26).
func TestFlappingServer(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.pass(2 * time.Minute)
	const hours = 2
	for range hours * 60 {
		if l.has("b01", routing.Active) {
			l.dead("b01")
		} else {
			l.ready("b01")
		}
		l.pass(time.Minute)
	}
	if rate := float64(l.epochs) / hours / 60; rate > 2.5 {
		t.Errorf("%.1f epochs a minute", rate)
	}
}

func TestFlapWait(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	p := New(Default())
	p.flaps = map[string]flap{}
	var waits []time.Duration
	for range 8 {
		p.flapped("a", now)
		waits = append(waits, p.flaps["a"].wait().Round(time.Second))
	}
	s := time.Second
	if want := []time.Duration{0, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s, 300 * s}; !slices.Equal(waits, want) {
		t.Errorf("%v", waits)
	}
	if got := p.flaps["a"].now(now.Add(2 * time.Minute)); got != 2 {
		t.Errorf("8 fades to %v in two minutes", got)
	}
	if f := p.flaps["a"]; f.over(now.Add(299*s)) || !f.over(now.Add(6*time.Minute)) {
		t.Error("when it is over")
	}
}

// An epoch before the latest decision was taken leaves no trace of it.
func TestRefusedDecisionsLeaveNoTrace(t *testing.T) {
	l := newLab(t, fleet(5, "")...)
	l.dead("b01", "b02")
	l.pass(59 * time.Second)
	for range 100 {
		l.in.Now = l.in.Now.Add(2 * time.Second)
		if d := l.planner.Next(l.in); len(d.Reasons) != 1 && l.in.Now.Sub(l.in.LeaderSince) > time.Minute {
			t.Fatalf("%+v", d)
		}
	}
	l.next()
	l.want("evicted b01")
}
