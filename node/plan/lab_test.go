package plan

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
)

// tester is what testing.T and rapid.T share.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// lab is a leader that proposes what its planner wants, and whose proposals are always taken.
type lab struct {
	t       tester
	planner *Planner
	in      Input
	log     []string // "kind subject" of all that was decided
	epochs  int
}

var policy = routing.Policy{Strategy: routing.PrefixAware}

// newLab is a leader of three routers for two minutes, with a fleet of its own.
func newLab(t tester, backends ...routing.Backend) *lab {
	t.Helper()
	e, err := routing.NewEpoch(1, 7).Apply(routing.Change{
		PutEndpoints: []routing.Endpoint{
			{Name: "chat", Variants: []routing.Variant{{Name: "main", Weight: 1, Policy: policy}, {Name: "canary", Weight: 1, Policy: policy}}},
			{Name: "embed", Variants: []routing.Variant{{Name: "main", Weight: 1, Policy: policy}}},
		},
		PutBackends: backends,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &lab{t: t, planner: New(Default()), in: Input{
		Now: start, Epoch: e, Broken: map[string]bool{}, Reports: map[Key]Report{}, Complete: true,
		Members: []string{"r1", "r2", "r3"}, LeaderSince: start,
	}}
	return l
}

// backend is one of chat/main.
func backend(id string, state routing.State, source string) routing.Backend {
	return routing.Backend{ID: id, URL: "http://" + id + ":80", Endpoint: "chat", Variant: "main", Weight: 1, State: state, Source: source}
}

// fleet is n active backends b00, b01 and so on.
func fleet(n int, source string) []routing.Backend {
	var all []routing.Backend
	for i := range n {
		all = append(all, backend(fmt.Sprintf("b%02d", i), routing.Active, source))
	}
	return all
}

// list is what a source says of the backends.
func list(backends ...routing.Backend) []Found {
	var found []Found
	for _, b := range backends {
		found = append(found, Found{ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, Weight: b.Weight, Source: b.Source})
	}
	return found
}

func (l *lab) get(id string) routing.Backend {
	for _, b := range l.in.Epoch.Backends() {
		if b.ID == id {
			return b
		}
	}
	return routing.Backend{}
}

func (l *lab) has(id string, state routing.State) bool {
	b := l.get(id)
	return b.ID == id && b.State == state
}

// report sets what is said of the present incarnation of a backend.
func (l *lab) report(id string, r Report) {
	b := l.get(id)
	if b.ID == "" {
		l.t.Fatalf("there is no %s to report on", id)
	}
	l.in.Reports[Key{b.ID, b.Incarnation}] = r
}

func (l *lab) ready(ids ...string) {
	for _, id := range ids {
		l.report(id, Report{Ready: l.in.Members})
	}
}

func (l *lab) dead(ids ...string) {
	for _, id := range ids {
		l.report(id, Report{Dead: l.in.Members})
	}
}

// next decides once and applies the decision.
func (l *lab) next() Decision {
	l.t.Helper()
	d := l.planner.Next(l.in)
	if again := l.planner.Next(l.in); !reflect.DeepEqual(d, again) {
		l.t.Fatalf("a second look decides otherwise: %s", cmp.Diff(d, again))
	}
	if d.Again <= 0 || d.Again > resting {
		l.t.Fatalf("Again is %s", d.Again)
	}
	if d.Empty {
		if len(d.Reasons) > 0 {
			l.t.Fatalf("reasons for nothing: %v", d.Reasons)
		}
		return d
	}
	e, err := l.in.Epoch.Apply(d.Change)
	if err != nil {
		l.t.Fatalf("the change does not apply: %v", err)
	}
	l.in.Epoch = e
	l.epochs++
	for _, r := range d.Reasons {
		l.log = append(l.log, string(r.Kind)+" "+r.Subject)
	}
	return d
}

// pass lets time go by, as the leader does: it looks again after each epoch's gap, or when it was told to.
func (l *lab) pass(d time.Duration) {
	l.t.Helper()
	for end := l.in.Now.Add(d); ; {
		decision := l.next()
		wait := decision.Again
		if !decision.Empty {
			wait = l.planner.cfg.EpochGap
		}
		if left := end.Sub(l.in.Now); wait >= left {
			l.in.Now = end
			return
		}
		l.in.Now = l.in.Now.Add(wait)
	}
}

// want checks all that was decided since the last call.
func (l *lab) want(decisions ...string) {
	l.t.Helper()
	if diff := cmp.Diff(strings.Join(decisions, "\n"), strings.Join(l.log, "\n")); diff != "" {
		l.t.Errorf("decisions (-want +got):\n%s", diff)
	}
	l.log = nil
}

// wantHeld checks which limits forbade something on a subject.
func wantHeld(t tester, d Decision, kind Kind, subject string) {
	t.Helper()
	for _, r := range d.Held {
		if r.Kind == kind && r.Subject == subject {
			return
		}
	}
	t.Errorf("nothing is held for %s by %s: %v", subject, kind, d.Held)
}
