package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing"
)

var (
	ids     = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	sources = []string{"dns:one", "dns:two", Lease}
)

// storm is a leader's life in which anything may happen, and what must hold all the same.
type storm struct {
	*lab
	twin    *Planner // is shown the same in another order
	since   map[string]time.Time
	evicted []time.Time
	largest []stamp // sizes of the fleet
}

type stamp struct {
	at time.Time
	n  int
}

func newStorm(t tester) *storm {
	cfg := Default()
	cfg.DrainLimit = time.Minute
	s := &storm{lab: newLab(t, append(fleet(3, ""), backend("a", routing.Active, Lease))...), twin: New(cfg), since: map[string]time.Time{}}
	s.planner = New(cfg)
	s.in.Found = list(s.get("a"))
	return s
}

// anything changes some input.
func (s *storm) anything(t *rapid.T) {
	switch rapid.IntRange(0, 11).Draw(t, "what") {
	case 0, 1, 2:
		s.relist(t)
	case 3:
		source := rapid.SampledFrom(sources).Draw(t, "source")
		s.in.Broken[source] = !s.in.Broken[source]
	case 4, 5, 6:
		s.rumour(t)
	case 7:
		s.in.Complete = !s.in.Complete
	case 8:
		s.in.Members = []string{"r1", "r2", "r3", "r4", "r5", "r6"}[:rapid.IntRange(1, 6).Draw(t, "routers")]
	case 9:
		if rapid.IntRange(0, 9).Draw(t, "elect") == 0 {
			s.in.LeaderSince = s.in.Now
		}
	case 10:
		s.operate(t)
	case 11:
		s.in.Now = s.in.Now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
	}
}

func (s *storm) relist(t *rapid.T) {
	source := rapid.SampledFrom(sources).Draw(t, "source")
	s.in.Found = slices.DeleteFunc(slices.Clone(s.in.Found), func(f Found) bool { return f.Source == source })
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, len(ids), rapid.ID[string]).Draw(t, "ids") {
		f := Found{
			ID: id, Source: source, Endpoint: rapid.SampledFrom([]string{"chat", "chat", "chat", "embed", "none"}).Draw(t, "endpoint"),
			URL:    "http://" + rapid.SampledFrom([]string{id, id, id, "x"}).Draw(t, "host") + ":80",
			Weight: rapid.SampledFrom([]float64{1, 1, 1, 2, 0}).Draw(t, "weight"),
		}
		s.in.Found = append(s.in.Found, f)
	}
}

func (s *storm) rumour(t *rapid.T) {
	for _, b := range s.in.Epoch.Backends() {
		key := Key{b.ID, b.Incarnation}
		r := s.in.Reports[key]
		switch rapid.IntRange(0, 5).Draw(t, "say") {
		case 0:
			r.Ready, r.Dead = s.in.Members, nil
		case 1:
			r.Ready, r.Dead = nil, s.in.Members
		case 2:
			r.Ready, r.Dead = s.in.Members[:1], s.in.Members[1:]
		case 3:
			r.InFlight = rapid.IntRange(0, 2).Draw(t, "in flight")
		case 4:
			r.Succeeded = !r.Succeeded
		}
		s.in.Reports[key] = r
	}
}

func (s *storm) operate(t *rapid.T) {
	b := rapid.SampledFrom(s.in.Epoch.Backends()).Draw(t, "backend")
	c := routing.Change{RemoveBackends: []string{b.ID}}
	if rapid.Bool().Draw(t, "drain") {
		b.State, b.Source = routing.Draining, ""
		c = routing.Change{PutBackends: []routing.Backend{b}}
	}
	if len(s.in.Epoch.Backends()) > 2 {
		s.in.Epoch, _ = s.in.Epoch.Apply(c)
	}
}

// step decides, and checks the decision against the rules.
func (s *storm) step() Decision {
	other := s.in
	other.Found = slices.Clone(s.in.Found)
	slices.Reverse(other.Found)
	other.Members = slices.Clone(s.in.Members)
	slices.Reverse(other.Members)
	twin := s.twin.Next(other)
	before := s.in.Epoch
	for _, b := range before.Backends() {
		if b.State != routing.Draining {
			delete(s.since, b.ID)
		} else if s.since[b.ID].IsZero() {
			s.since[b.ID] = s.in.Now
		}
	}
	d := s.next()
	if !reflect.DeepEqual(d, twin) {
		s.t.Fatalf("another order of the inputs decides otherwise: %s", cmp.Diff(d, twin))
	}
	s.check(before, s.in.Epoch)
	return d
}

func (s *storm) check(before, after *routing.Epoch) {
	was, is := index(before), index(after)
	active, gone := map[string]int{}, map[string]int{}
	fleetSize := 0
	for id, b := range was {
		if b.State != routing.Draining {
			fleetSize++
		}
		if b.State == routing.Active {
			active[b.Endpoint]++
			if n := is[id]; n.State != routing.Active {
				gone[b.Endpoint]++
			}
		}
		s.checkOne(&b, is)
	}
	for endpoint, n := range gone {
		if n > max(1, active[endpoint]/5) {
			s.t.Fatalf("%d of %d leave %s at once", n, active[endpoint], endpoint)
		}
	}
	s.largest = append(s.largest, stamp{s.in.Now, fleetSize})
	s.checkRate()
}

// checkOne judges what became of one backend.
func (s *storm) checkOne(b *routing.Backend, is map[string]routing.Backend) {
	report, n := s.in.Reports[Key{b.ID, b.Incarnation}], is[b.ID]
	kept := s.in.Broken[b.Source] || b.Source != Lease && !slices.ContainsFunc(s.in.Found, func(f Found) bool { return f.Source == b.Source })
	switch {
	case n.ID == "":
		held := s.in.Now.Sub(s.since[b.ID])
		if b.State != routing.Draining || (report.InFlight > 0 || !s.in.Complete) && held < time.Minute {
			s.t.Fatalf("%+v is removed after %s with %+v", b, held, report)
		}
	case n.State == routing.Draining && b.State != routing.Draining:
		if b.Source == "" || kept {
			s.t.Fatalf("%+v is drained", b)
		}
	case n.State == routing.Active && b.State != routing.Active:
		if b.State == routing.Draining || !count(Observers(s.in.Members, b.ID), report.Ready).majority() {
			s.t.Fatalf("%+v is active with %+v", b, report)
		}
	case n.State == routing.Joining && b.State == routing.Active && n.Incarnation == b.Incarnation && n.Endpoint == b.Endpoint:
		s.evicted = append(s.evicted, s.in.Now)
		pool := [2]int{}
		for _, o := range is {
			if o.Endpoint == b.Endpoint && o.Variant == b.Variant && o.State != routing.Draining {
				pool[0]++
				if o.State == routing.Active {
					pool[1]++
				}
			}
		}
		young := s.in.Now.Sub(s.in.LeaderSince) < time.Minute
		if report.Succeeded || !s.in.Complete || young || 2*pool[1] < pool[0] || !count(Observers(s.in.Members, b.ID), report.Dead).majority() {
			s.t.Fatalf("%+v is evicted with %+v, %d of %d left", b, report, pool[1], pool[0])
		}
	}
}

// checkRate: at most a tenth of the fleet, and at least one, within a minute. A new leader has waited for one.
func (s *storm) checkRate() {
	recent := func(at time.Time) bool { return s.in.Now.Sub(at) < time.Minute }
	most := 1
	for _, st := range s.largest {
		if recent(st.at) {
			most = max(most, st.n/10)
		}
	}
	n := 0
	for _, at := range s.evicted {
		if recent(at) {
			n++
		}
	}
	if n > most {
		s.t.Fatalf("%d evictions within a minute, %d allowed", n, most)
	}
}

func index(e *routing.Epoch) map[string]routing.Backend {
	m := map[string]routing.Backend{}
	for _, b := range e.Backends() {
		m[b.ID] = b
	}
	return m
}

// live runs a storm, and then the calm after it.
func live(t *rapid.T) {
	s := newStorm(t)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		s.anything(t)
		s.step()
		s.in.Now = s.in.Now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
	}
	// Inputs that stand still lead to a fleet that stands still. The longest waits are drains and damping.
	for end := s.in.Now.Add(12 * time.Minute); s.in.Now.Before(end); s.in.Now = s.in.Now.Add(14 * time.Second) {
		s.step()
	}
	epoch := s.in.Epoch.ID()
	for range 10 {
		if d := s.step(); !d.Empty {
			t.Fatalf("%s is followed by %+v", epoch, d.Reasons)
		}
		s.in.Now = s.in.Now.Add(time.Minute / 5)
	}
	if n := len(s.planner.backends); n != len(s.in.Epoch.Backends()) {
		t.Fatalf("the planner remembers %d backends of %d", n, len(s.in.Epoch.Backends()))
	}
	if n := len(slices.Collect(maps.Keys(s.planner.flaps))); n > 0 {
		t.Fatalf("the planner remembers %d flaps", n)
	}
}

func TestStorms(t *testing.T) { rapid.Check(t, live) }

func FuzzStorms(f *testing.F) { f.Fuzz(rapid.MakeFuzz(live)) }

// What a source lists is anybody's text.
func FuzzFound(f *testing.F) {
	f.Add("a", "http://a:80", "chat", "main", 1.0, 0)
	f.Add("good].url", "", "", "", -1.0, -1)
	f.Fuzz(func(t *testing.T, id, url, endpoint, variant string, weight float64, limit int) {
		l := newLab(t, fleet(2, dns)...)
		l.in.Found = append(list(l.in.Epoch.Backends()...),
			Found{ID: id, URL: url, Endpoint: endpoint, Variant: variant, Weight: weight, MaxInflight: limit, Source: Lease},
			Found{ID: "good", URL: "http://good:80", Weight: 1, Endpoint: "embed", Source: Lease})
		l.next()
		if id != "good" && url != "http://good:80" && !l.has("good", routing.Joining) {
			t.Errorf("%q keeps others out", id)
		}
		if err := Check(l.in.Epoch, l.in.Found[2]); err != nil && fmt.Sprint(err) == "" {
			t.Error("an error without a text")
		}
	})
}
