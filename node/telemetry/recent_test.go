package telemetry

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// fakeLoads is a picker's view that a test sets.
type fakeLoads struct {
	mu    sync.Mutex // guards what follows
	list  []routing.Load
	asked int
}

func (f *fakeLoads) Snapshot(time.Time) []routing.Load {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.list
}

func (f *fakeLoads) Epoch() *routing.Epoch { return nil }

// scene is a Recent with a clock and loads that the test moves.
type scene struct {
	*Recent
	loads *fakeLoads
	clock time.Time
}

func newScene(t testing.TB, ids ...string) *scene {
	t.Helper()
	s := &scene{loads: &fakeLoads{}, clock: time.Unix(1000, 0)}
	s.Recent = NewRecent(s.loads, func() time.Time { return s.clock })
	s.SetFleet(fleetOf(t, ids...))
	return s
}

func (s *scene) after(d time.Duration) { s.clock = s.clock.Add(d) }

func (s *scene) read() Report { return s.Read(s.clock) }

func near(got *float64, want, tolerance float64) bool {
	return got != nil && math.Abs(*got-want) <= tolerance*want
}

func TestRecentNow(t *testing.T) {
	s := newScene(t, "gpu-0", "gpu-1")
	for range 10 {
		s.after(time.Second)
		s.Observe(t.Context(), served("gpu-0"))
		cold := served("gpu-1")
		cold.Usage.Prompt, cold.Usage.Cached, cold.Decision = 9000, 0, routing.DecisionOverflow
		s.Observe(t.Context(), cold)
	}
	r := s.read()
	if r.Now.Requests != 2 || r.Now.Errors != 0 || r.Now.Seconds != 10 {
		t.Errorf("now: %+v", r.Now)
	}
	if !near(r.Now.HitRate, .09, 1e-9) { // of all tokens, not the mean of two rates
		t.Errorf("hit rate %v", *r.Now.HitRate)
	}
	if !near(r.Now.TTFTp50, 200, .25) || !near(r.Now.TTFTp90, 200, .25) || !near(r.OverheadP50, .04, .25) {
		t.Errorf("times: %v %v %v", *r.Now.TTFTp50, *r.Now.TTFTp90, *r.OverheadP50)
	}
	if diff := cmp.Diff(map[routing.Decision]uint64{routing.DecisionHome: 10, routing.DecisionOverflow: 10}, r.Decisions); diff != "" {
		t.Error(diff)
	}
	if b := r.Backends["gpu-1"]; !near(b.HitRate, 0, 0) || b.Requests != 1 {
		t.Errorf("gpu-1: %+v", b)
	}
	s.after(12 * time.Second)
	if r = s.read(); r.Now.Requests != 0 || r.Now.HitRate != nil || r.Now.TTFTp50 != nil || len(r.Decisions) != 0 {
		t.Errorf("after a pause: %+v", r.Now)
	}
	if b := r.Backends["gpu-0"]; b.Requests == 0 {
		t.Error("a backend's figures do not last a minute")
	}
}

func TestRecentErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Record)
		errors float64
		paced  bool // counts for the time to first token
	}{
		"good":        {func(*api.Record) {}, 0, true},
		"5xx":         {func(r *api.Record) { r.Status, r.Result.Status = 503, 503 }, 1, false},
		"429":         {func(r *api.Record) { r.Status, r.Result.Status = 429, 429 }, 1, false},
		"4xx":         {func(r *api.Record) { r.Status, r.Result.Status = 400, 400 }, 0, false},
		"broken":      {func(r *api.Record) { r.Broken = errors.New("cut") }, 1, false},
		"client gone": {func(r *api.Record) { r.Broken = fmt.Errorf("x: %w", proxy.ErrClientGone) }, 0, false},
		"499":         {func(r *api.Record) { r.Status = 499; r.Attempts = 0 }, 0, false},
		"unary":       {func(r *api.Record) { r.Stream = false }, 0, false},
	} {
		s := newScene(t, "gpu-0")
		s.after(time.Second)
		r := served("gpu-0")
		c.change(r)
		s.Observe(t.Context(), r)
		if got := s.read().Now; got.Requests != 1 || got.Errors != c.errors || (got.TTFTp50 != nil) != c.paced {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRecentHitRateIsUnknownUnlessReported(t *testing.T) {
	s := newScene(t, "gpu-0")
	r := served("gpu-0")
	r.Usage.HasCached, r.Usage.Cached = false, 0
	s.Observe(t.Context(), r)
	if got := s.read().Now.HitRate; got != nil {
		t.Errorf("%v from a server that does not report cached tokens", *got)
	}
}

func TestRecentHistory(t *testing.T) {
	s := newScene(t, "gpu-0")
	if got := s.read().History; len(got) != 0 {
		t.Errorf("a history of %d steps before there was time for one", len(got))
	}
	for range 400 { // the ring goes round
		s.Observe(t.Context(), served("gpu-0"))
		s.after(time.Second)
	}
	r := s.read()
	if len(r.History) != historySteps || !r.HistoryUntil.Equal(time.Unix(1400, 0)) {
		t.Fatalf("%d steps until %v", len(r.History), r.HistoryUntil)
	}
	for i, f := range r.History {
		if f.Requests != 1 || f.Seconds != 5 || !near(f.HitRate, .9, 1e-9) || !near(f.InFlight, 0, 0) {
			t.Errorf("step %d: %+v", i, f)
		}
	}
	s.after(150 * time.Second)
	quiet := 0
	for _, f := range s.read().History {
		if f.Requests == 0 && f.HitRate == nil {
			quiet++
		}
	}
	if quiet != 30 {
		t.Errorf("%d quiet steps, want 30", quiet)
	}
}

func TestRecentSamplesOnceASecond(t *testing.T) {
	s := newScene(t, "gpu-0")
	s.loads.list = []routing.Load{{Backend: routing.Backend{ID: "gpu-0"}, InFlight: 4}, {Backend: routing.Backend{ID: "old"}, InFlight: 2, Gone: true}}
	for range 10 {
		s.Observe(t.Context(), served("gpu-0"))
		s.after(100 * time.Millisecond)
	}
	r := s.read()
	if s.loads.asked > 3 { // one by Observe, one by Read, and Read may ask in vain
		t.Errorf("asked %d times within a second", s.loads.asked)
	}
	if !near(r.Now.InFlight, 6, 0) || !near(r.Backends["gpu-0"].InFlight, 4, 0) {
		t.Errorf("in flight: %v", *r.Now.InFlight)
	}
}

func TestRecentFleet(t *testing.T) {
	s := newScene(t, "gpu-0", "gpu-1")
	s.Observe(t.Context(), served("gpu-1"))
	next, err := s.fleet.Apply(routing.Change{Drain: []string{"gpu-1"}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetFleet(next)
	s.SetFleet(next) // said twice
	last, err := next.Apply(routing.Change{RemoveBackends: []string{"gpu-1"}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetFleet(last)
	s.SetFleet(next) // late
	s.Observe(t.Context(), served("gpu-1"))
	r := s.read()
	if _, there := r.Backends["gpu-1"]; there || len(r.Backends) != 1 {
		t.Errorf("backends: %v", r.Backends)
	}
	at := time.Unix(1000, 0)
	want := []Change{
		{at, ChangeRemoved, "gpu-1", "1.3"},
		{at, ChangeState, "gpu-1 draining", "1.2"},
		{at, ChangeEndpoints, "demo", "1.1"},
		{at, ChangeAdded, "gpu-0, gpu-1", "1.1"},
	}
	if diff := cmp.Diff(want, r.Changes); diff != "" {
		t.Error(diff)
	}
}

func TestRecentEjections(t *testing.T) {
	s := newScene(t, "gpu-0")
	set := func(ejections int) {
		s.loads.list = []routing.Load{{Backend: routing.Backend{ID: "gpu-0"}, Ejections: ejections}}
		s.after(time.Second)
		s.Observe(t.Context(), served("gpu-0"))
	}
	for _, n := range []int{0, 1, 2, 0, 0, 1} {
		set(n)
	}
	var kinds []string
	for _, c := range s.read().Changes[:3] {
		kinds = append(kinds, c.Kind+" "+c.Subject)
	}
	if diff := cmp.Diff([]string{"ejected gpu-0", "returned gpu-0", "ejected gpu-0"}, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestChangesAreBounded(t *testing.T) {
	var c changes
	for i := range 3 * maxChanges {
		c.add(Change{Subject: fmt.Sprint(i)})
	}
	if got := c.newestFirst(); len(got) != maxChanges || got[0].Subject != fmt.Sprint(3*maxChanges-1) {
		t.Errorf("%d changes, the newest %v", len(got), got[0])
	}
	if got := subject([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
}

// Every time is in the bucket that says it is, and a quantile of evenly spread times is off by an eighth at most.
func TestHistogram(t *testing.T) {
	holds := func(us uint32) bool {
		d := time.Duration(us) * time.Microsecond
		i := bucket(d)
		return float64(us) >= lower(i) && (float64(us) < lower(i+1) || i == histogramBuckets-1)
	}
	if err := quick.Check(holds, nil); err != nil {
		t.Error(err)
	}
	var h histogram
	if h.quantile(.5) != nil {
		t.Error("a median of nothing")
	}
	for ms := 1; ms <= 1000; ms++ {
		h.add(time.Duration(ms) * time.Millisecond)
	}
	for _, q := range []float64{.01, .1, .5, .9, .99, 1} {
		if got := h.quantile(q); !near(got, q*1000, .125) {
			t.Errorf("quantile %v is %v", q, *got)
		}
	}
	h.add(-time.Second)
	h.add(time.Hour)
}

func TestObserveRecentDoesNotAllocate(t *testing.T) {
	s := newScene(t, "gpu-0")
	s.read() // the next sample is due in a second
	r := served("gpu-0")
	if n := testing.AllocsPerRun(100, func() { s.Observe(t.Context(), r) }); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func TestRecentConcurrently(t *testing.T) {
	s := newScene(t, "gpu-0", "gpu-1")
	s.now = time.Now
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				s.Observe(t.Context(), served(fmt.Sprintf("gpu-%d", i%2)))
				s.Read(time.Now())
			}
		})
	}
	wg.Wait()
	total := uint32(0)
	for _, slot := range s.past.slots {
		total += slot.tally.requests
	}
	if total != 800 {
		t.Errorf("%d requests counted, want 800", total)
	}
}

func BenchmarkObserveRecent(b *testing.B) {
	s := newScene(b, "gpu-0")
	s.read()
	r := served("gpu-0")
	b.ReportAllocs()
	for b.Loop() {
		s.Observe(b.Context(), r)
	}
}
