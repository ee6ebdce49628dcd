package hot

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// path is counts of a chain of consecutive hashes behind parent.
func path(parent, first uint64, visits ...float64) []Count {
	var out []Count
	for i, v := range visits {
		out = append(out, Count{Chunk: first + uint64(i), Parent: parent, Visits: v})
		parent = first + uint64(i)
	}
	return out
}

func report(requests float64, paths ...[]Count) []Report {
	return []Report{{Requests: requests, Counts: slices.Concat(paths...)}}
}

func TestMake(t *testing.T) {
	// With 5 servers and alpha 8, a unit is a 40th: 20 of 800 requests. Noise is two square roots.
	cfg := Config{Servers: 5}
	for _, c := range []struct {
		name   string
		before []Run
		given  []Report
		want   []Run
	}{
		{"nothing", nil, nil, []Run{}},
		{"a share of one step is not hot", nil, report(800, path(testRoot, 1, 20)), []Run{}},
		{"a little more is", nil, report(800, path(testRoot, 1, 20.5)), []Run{{1, 1, 1, 2}}},
		{"rounded up", nil, report(800, path(testRoot, 1, 41)), []Run{{1, 1, 1, 3}}},
		{"at most all servers", nil, report(800, path(testRoot, 1, 700)), []Run{{1, 1, 1, 5}}},
		{"too few visits", nil, report(50, path(testRoot, 1, 5.9)), []Run{}},
		{"just enough visits", nil, report(50, path(testRoot, 1, 6)), []Run{{1, 1, 1, 5}}},
		{"one run", nil, report(800, path(testRoot, 1, 59, 59, 58, 50)), []Run{{1, 4, 4, 3}}},
		{"one run, though less traffic would need fewer servers", nil, report(800, path(testRoot, 1, 61, 61, 59, 59)), []Run{{1, 4, 4, 4}}},
		{"half a unit has left", nil, report(800, path(testRoot, 1, 61, 61, 51, 50.9)), []Run{{1, 3, 3, 4}, {4, 4, 1, 3}}},
		{
			"more than half a unit has left", nil,
			report(800, path(testRoot, 1, 700, 700, 690, 689, 680, 679)),
			[]Run{{1, 3, 3, 5}, {4, 6, 3, 5}},
		},
		{"what is too cold alone belongs to it", nil, report(800, path(testRoot, 1, 21, 19, 14.1)), []Run{{1, 3, 3, 2}}},
		{"unless it is hardly known", nil, report(80, path(testRoot, 1, 8, 7, 5.9)), []Run{{1, 2, 2, 4}}},
		{
			"a fork inside the table", nil,
			report(800, path(testRoot, 1, 60, 60), path(2, 11, 30, 30), path(2, 21, 25, 25)),
			[]Run{{1, 2, 2, 3}, {11, 12, 2, 2}, {21, 22, 2, 2}},
		},
		{
			"a fork of more than there is", nil,
			report(800, path(testRoot, 1, 795), path(1, 11, 795), path(1, 21, 795)),
			[]Run{{1, 1, 1, 5}, {11, 11, 1, 5}, {21, 21, 1, 5}},
		},
		{
			"a fork into what is cold", nil,
			report(800, path(testRoot, 1, 60, 60), path(2, 11, 50, 50), path(2, 21, 10, 10)),
			[]Run{{1, 12, 4, 3}},
		},
		{
			"a lost parent has its children's visits", nil,
			report(800, path(testRoot, 1, 60, 2), path(2, 11, 30, 30), path(2, 21, 28, 28)),
			[]Run{{1, 2, 2, 3}, {11, 12, 2, 2}, {21, 22, 2, 2}},
		},
		{
			"sums of reports", nil,
			append(report(300, path(testRoot, 1, 10, 9)), append(report(300, path(testRoot, 1, 11)), report(200, path(testRoot, 1, 2, 16))...)...),
			[]Run{{1, 2, 2, 2}},
		},
		{"keeps what wavers", []Run{{1, 3, 3, 4}}, report(800, path(testRoot, 1, 31.1, 31.1, 31.1)), []Run{{1, 3, 3, 4}}},
		{"gives back below 0.7", []Run{{1, 3, 3, 4}}, report(800, path(testRoot, 1, 30.8, 30.8, 30.8)), []Run{{1, 3, 3, 2}}},
		{"gets no more within the noise", []Run{{1, 3, 3, 3}}, report(800, path(testRoot, 1, 76, 76, 76)), []Run{{1, 3, 3, 3}}},
		{"but beyond", []Run{{1, 3, 3, 3}}, report(800, path(testRoot, 1, 79, 77, 77)), []Run{{1, 3, 3, 4}}},
		{"keeps a run in one", []Run{{1, 3, 3, 4}}, report(800, path(testRoot, 1, 62, 55, 52)), []Run{{1, 3, 3, 4}}},
		{"unless more has left", []Run{{1, 3, 3, 4}}, report(800, path(testRoot, 1, 62, 55, 51.9)), []Run{{1, 2, 2, 4}, {3, 3, 1, 4}}},
		{"keeps two runs", []Run{{1, 2, 2, 4}, {3, 3, 1, 4}}, report(800, path(testRoot, 1, 62, 62, 56)), []Run{{1, 2, 2, 4}, {3, 3, 1, 4}}},
		{"until they are one", []Run{{1, 2, 2, 4}, {3, 3, 1, 4}}, report(800, path(testRoot, 1, 62, 62, 57)), []Run{{1, 3, 3, 4}}},
		{"but not what forks from it", []Run{{1, 3, 3, 3}}, report(800, path(testRoot, 1, 42, 40, 39), path(2, 21, 2)), []Run{{1, 3, 3, 3}}},
		{"goes on behind it", []Run{{1, 2, 2, 4}}, report(800, path(testRoot, 1, 43, 43, 42)), []Run{{1, 3, 3, 4}}},
		{"stays in above 0.7", []Run{{1, 2, 2, 2}}, report(800, path(testRoot, 1, 8.3, 8.3)), []Run{{1, 2, 2, 2}}},
		{"leaves below 0.7", []Run{{1, 2, 2, 2}}, report(800, path(testRoot, 1, 8.2, 8.2)), []Run{}},
		{"stays in with few visits", []Run{{1, 2, 2, 3}}, report(50, path(testRoot, 1, 4, 4)), []Run{{1, 2, 2, 3}}},
		{"its end is gone", []Run{{1, 9, 4, 4}}, report(800, path(testRoot, 1, 43, 43, 43)), []Run{{1, 3, 3, 4}}},
		{"and the rest reaches no further", []Run{{1, 9, 2, 4}}, report(800, path(testRoot, 1, 43, 43, 5)), []Run{{1, 2, 2, 4}}},
		{"fewer servers than before", []Run{{1, 1, 1, 9}}, report(800, path(testRoot, 1, 700)), []Run{{1, 1, 1, 5}}},
		{"no child is hotter", []Run{{2, 2, 1, 5}}, report(800, path(testRoot, 1, 65, 65)), []Run{{1, 2, 2, 4}}},
		{"no child without its parent", []Run{{2, 2, 1, 2}}, report(800, path(testRoot, 1, 19, 19)), []Run{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Make(c.before, c.given, cfg)
			if diff := cmp.Diff(c.want, got.Runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			chunks := 0
			for _, r := range c.want {
				chunks += r.Length
			}
			if got.Chunks != chunks || got.Cut != 0 || got.Alpha != 8 {
				t.Errorf("%+v, want %d chunks, none cut, alpha 8", got, chunks)
			}
		})
	}
}

func TestMakeForOneServer(t *testing.T) {
	for _, n := range []int{1, 0, -3} {
		if got := Make(nil, report(800, path(testRoot, 1, 700)), Config{Servers: n}); len(got.Runs) != 0 || got.Requests != 800 {
			t.Errorf("%d servers: %+v", n, got)
		}
	}
}

func TestAlpha(t *testing.T) {
	told := func(pairs ...float64) (out []Report) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, Report{Requests: pairs[i], Written: pairs[i+1]})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		cfg   Config
		given []Report
		want  float64
	}{
		{"capacity unknown", Config{}, told(100, 1000), 8},
		{"nothing written", Config{Capacity: 1e5}, told(100, 0), 8},
		{"large cache", Config{Capacity: 1e6}, told(100, 1000), 8},
		{"between", Config{Capacity: 96_000}, told(100, 1000), 4},
		{"small cache", Config{Capacity: 10_000}, told(100, 1000), 2},
		{"weighted by requests", Config{Capacity: 96_000}, told(300, 500, 100, 2500), 4},
		{"who does not know has no weight", Config{Capacity: 96_000}, told(300, 0, 100, 1000), 4},
		{"no number", Config{Capacity: 96_000}, told(300, math.NaN(), 100, 1000, math.Inf(1), 7), 4},
		{"own limit", Config{Alpha: 3, Capacity: 96_000}, told(100, 1000), 3},
		{"own limit below the least", Config{Alpha: 1, Capacity: 10}, told(100, 1000), 1},
		{"odd limit", Config{Alpha: math.NaN()}, nil, 8},
	} {
		if got := Make(nil, c.given, c.cfg).Alpha; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMaxRunsKeepsTheLargest(t *testing.T) {
	given := report(800, path(testRoot, 1, 100, 80, 60, 40), path(testRoot, 11, 90, 70, 50, 30))
	cfg := Config{Servers: 5}
	all := Make(nil, given, cfg)
	if len(all.Runs) != 8 {
		t.Fatalf("%v, want 8 runs", all.Runs)
	}
	for most, last := range map[int][2]uint64{1: {1, 0}, 2: {1, 11}, 3: {2, 11}, 4: {2, 12}, 7: {4, 13}} {
		cfg.MaxRuns = most
		got := Make(nil, given, cfg)
		var want []Run
		for _, r := range all.Runs {
			if r.First <= last[0] || r.First > 10 && r.First <= last[1] {
				want = append(want, r)
			}
		}
		if !slices.Equal(got.Runs, want) || got.Cut != 8-most || got.Chunks != most {
			t.Errorf("at most %d: %+v, want %v", most, got, want)
		}
	}
}

// Of two that waver around the last place, the one that has it keeps it.
func TestMaxRunsHoldsStill(t *testing.T) {
	given := report(800, path(testRoot, 1, 100), path(testRoot, 11, 110))
	for before, want := range map[uint64]uint64{0: 11, 1: 1, 11: 11} {
		got := Make([]Run{{First: before, Last: before, Length: 1, Servers: 5}}, given, Config{Servers: 5, MaxRuns: 1})
		if len(got.Runs) != 1 || got.Runs[0].First != want || got.Cut != 1 {
			t.Errorf("after %d: %+v, want %d", before, got, want)
		}
	}
}

// traffic is what a fleet of routers saw: every request goes down a forest to some chunk.
type traffic struct {
	parent   map[uint64]uint64
	visits   map[uint64]float64
	requests float64
	reports  []Report
}

func drawTraffic(t *rapid.T) traffic {
	tr := traffic{parent: map[uint64]uint64{}, visits: map[uint64]float64{}}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var chunks []uint64
	long := rapid.Float64Range(0, 1).Draw(t, "long")
	for i := range rapid.IntRange(1, 120).Draw(t, "chunks") {
		parent := uint64(testRoot) + rng.Uint64N(3)
		if i > 0 && rng.Float64() < long {
			parent = chunks[i-1]
		} else if i > 0 && rng.IntN(4) > 0 {
			parent = chunks[rng.IntN(i)]
		}
		chunk := rng.Uint64() >> 8
		chunks = append(chunks, chunk)
		tr.parent[chunk] = parent
	}
	tr.reports = make([]Report, rapid.IntRange(1, 4).Draw(t, "routers"))
	for i := range tr.reports {
		counted := map[uint64]float64{}
		n := rapid.IntRange(0, 300).Draw(t, "requests")
		for range n {
			at := chunks[min(rng.IntN(len(chunks)), rng.IntN(len(chunks)))]
			for ; at < testRoot; at = tr.parent[at] {
				counted[at] += 0.7
			}
		}
		r := Report{Requests: 0.7 * float64(n), Written: rng.Float64() * 1000}
		for chunk, v := range counted {
			tr.visits[chunk] += v
			r.Counts = append(r.Counts, Count{chunk, tr.parent[chunk], v})
		}
		tr.requests += r.Requests
		tr.reports[i] = r
	}
	return tr
}

// orderly checks a table against the parents of chunks.
func orderly(t rapid.TB, runs []Run, parent map[uint64]uint64, servers int) (in map[uint64]Run) {
	t.Helper()
	if !slices.IsSortedFunc(runs, func(a, b Run) int { return cmpUint(a.First, b.First) }) {
		t.Fatalf("not sorted: %v", runs)
	}
	in = map[uint64]Run{}
	ends := map[uint64]Run{}
	for _, r := range runs {
		if r.Servers < 2 || r.Servers > servers || r.Length < 1 {
			t.Fatalf("%+v for %d servers", r, servers)
		}
		ends[r.Last] = r
		at := r.Last
		for i := range r.Length {
			if _, twice := in[at]; twice {
				t.Fatalf("chunk %x is in two runs", at)
			}
			in[at] = r
			if i < r.Length-1 {
				at = parent[at]
			}
		}
		if at != r.First {
			t.Fatalf("%d chunks up from %x is %x, not %x", r.Length-1, r.Last, at, r.First)
		}
	}
	for _, r := range runs {
		up, known := parent[r.First]
		if _, counted := parent[up]; !known || !counted {
			continue
		}
		if before, ok := ends[up]; !ok || before.Servers < r.Servers {
			t.Fatalf("%+v cannot be reached or is hotter than what leads to it, %+v", r, before)
		}
	}
	return in
}

func cmpUint(a, b uint64) int {
	if a < b {
		return -1
	}
	return min(1, int(a-b))
}

func TestMakeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTraffic(t)
		cfg := Config{
			Servers: rapid.IntRange(2, 20).Draw(t, "servers"),
			Alpha:   rapid.Float64Range(0.5, 8).Draw(t, "alpha"),
			MaxRuns: rapid.SampledFrom([]int{0, 1, 3, 10}).Draw(t, "most"),
		}
		made := Make(nil, tr.reports, cfg)
		in := orderly(t, made.Runs, tr.parent, cfg.Servers)
		if made.Chunks != len(in) || cfg.MaxRuns > 0 && len(made.Runs) > cfg.MaxRuns {
			t.Fatalf("%+v, at most %d runs, %d chunks in them", made, cfg.MaxRuns, len(in))
		}
		for chunk, visits := range tr.visits {
			unit := tr.requests / (cfg.Alpha * float64(cfg.Servers))
			x := visits / unit
			r, ok := in[chunk]
			if !ok && made.Cut == 0 && x > 1.001 && visits > 6.001 {
				t.Fatalf("chunk %x needs %v servers and is not in the table", chunk, x)
			}
			if ok && chunk == r.First && math.Abs(float64(r.Servers)-min(x, float64(cfg.Servers))) > 1.001 {
				t.Fatalf("chunk %x needs %v servers and has %d", chunk, x, r.Servers)
			}
			if left := tr.visits[r.First] - visits; ok && left-2*math.Sqrt(max(0, left)) > unit/2+1e-6 {
				t.Fatalf("%v of %v visits left %+v", left, tr.visits[r.First], r)
			}
		}
	})
}

// Neither the order of reports nor that of their counts matters, to the last bit; and what was agreed on stays while the
// traffic does, and while it falls to what hysteresis allows.
func TestMakeIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTraffic(t)
		cfg := Config{Servers: rapid.IntRange(2, 20).Draw(t, "servers"), Capacity: 50_000}
		first := Make(nil, tr.reports, cfg)
		rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "shuffle")))
		rng.Shuffle(len(tr.reports), func(i, j int) { tr.reports[i], tr.reports[j] = tr.reports[j], tr.reports[i] })
		for _, r := range tr.reports {
			rng.Shuffle(len(r.Counts), func(i, j int) { r.Counts[i], r.Counts[j] = r.Counts[j], r.Counts[i] })
		}
		if diff := cmp.Diff(first, Make(nil, tr.reports, cfg)); diff != "" {
			t.Fatalf("in another order (-first +now):\n%s", diff)
		}
		again := Make(first.Runs, tr.reports, cfg)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("made again (-first +now):\n%s", diff)
		}
		// Other requests come in: all shares fall to 0.72 of (k-1) / k at least where runs start.
		quiet := rapid.Float64Range(0, 0.3).Draw(t, "others")
		more := append(slices.Clone(tr.reports), Report{Requests: tr.requests * quiet})
		later := orderly(t, Make(first.Runs, more, Config{Servers: cfg.Servers, Alpha: first.Alpha}).Runs, tr.parent, cfg.Servers)
		for chunk, r := range orderly(t, first.Runs, tr.parent, cfg.Servers) {
			if chunk == r.First && later[chunk].Servers < r.Servers {
				t.Fatalf("chunk %x had %d servers, has %d", chunk, r.Servers, later[chunk].Servers)
			}
		}
	})
}

// What many routers see through small sketches, the table has.
func TestSketchesToTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	prompt := func(system, document uint64, tail uint64) []uint64 {
		return slices.Concat(line(system<<32, 20), line(system<<32|document<<16, 40), line(1<<40|tail<<16, 60))
	}
	sketches := []*Sketch{NewSketch(4096), NewSketch(4096), NewSketch(4096)}
	for i := range uint64(6000) {
		document := 1 + rng.Uint64N(200)
		if rng.IntN(2) == 0 {
			document = 1 + i%2 // each of two has a quarter of the traffic
		}
		sketches[rng.IntN(3)].Add(testRoot, prompt(1, document, i), 500)
	}
	var reports []Report
	for _, s := range sketches {
		sound(t, s)
		reports = append(reports, s.Report(Floor(3), 1<<16))
	}
	made := Make(nil, reports, Config{Servers: 7})
	want := []Run{
		{First: 1 << 32, Last: 1<<32 + 19, Length: 20, Servers: 7},
		{First: 1<<32 | 1<<16, Last: 1<<32 | 1<<16 + 39, Length: 40, Servers: 7},
		{First: 1<<32 | 2<<16, Last: 1<<32 | 2<<16 + 39, Length: 40, Servers: 7},
	}
	if diff := cmp.Diff(want, made.Runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// Floating-point sums depend on their order, and hostile parents on who is asked first.
func TestMergeDependsOnNoOrder(t *testing.T) {
	told := []Report{
		{Requests: 0.1, Written: 3, Counts: []Count{{7, 5, 0.1}}},
		{Requests: 0.2, Written: 1, Counts: []Count{{7, 4, 0.2}}},
		{Requests: 0.3, Written: 7, Counts: []Count{{7, 5, 0.3}, {7, 5, 0.25}}},
		{Requests: math.Inf(1), Counts: []Count{{7, 1, 9}}},
		{Requests: -1, Counts: []Count{{8, 1, 9}}},
	}
	want := merge(told)
	if len(want.Counts) != 1 || want.Counts[0].Parent != 4 || math.Abs(want.Counts[0].Visits-0.85) > 1e-9 {
		t.Fatalf("%+v, want 0.85 visits of chunk 7 behind 4", want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		rng.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
		if diff := cmp.Diff(want, merge(told)); diff != "" {
			t.Fatalf("in another order (-first +now):\n%s", diff)
		}
	}
}

// town is requests that come as a Poisson process, each for a document whose popularity falls as in Zipf's law, seen by a few
// routers with sketches of the usual size.
type town struct {
	rng      *rand.Rand
	servers  int
	share    []float64 // of documents, summed up
	sketches []*Sketch
	tail     uint64
	runs     []Run
}

func newTown(seed uint64, servers, documents, routers int) *town {
	w := &town{rng: rand.New(rand.NewPCG(seed, 5)), servers: servers}
	sum := 0.0
	for i := range documents {
		sum += 1 / float64(i+1)
		w.share = append(w.share, sum)
	}
	for range routers {
		w.sketches = append(w.sketches, NewSketch(max(4096, 512*servers)))
	}
	return w
}

// period plays five seconds, in which a part of the requests is for one document more, and reports whether the table changed.
func (w *town) period(rate, fashion float64) bool {
	for t := w.rng.ExpFloat64() / rate; t < 5; t += w.rng.ExpFloat64() / rate {
		document, _ := slices.BinarySearch(w.share, w.rng.Float64()*w.share[len(w.share)-1])
		if w.rng.Float64() < fashion {
			document = len(w.share)
		}
		w.tail++
		chain := slices.Concat(line(1<<32, 4), line(1<<33+uint64(document)<<10, 20), line(1<<50+w.tail<<8, 3))
		w.sketches[w.rng.IntN(len(w.sketches))].Add(testRoot, chain, 500)
	}
	var reports []Report
	for _, s := range w.sketches {
		reports = append(reports, s.Report(Floor(len(w.sketches)), 1<<16))
		s.Decay(Factor(5 * time.Second))
	}
	was := w.runs
	w.runs = Make(was, reports, Config{Servers: w.servers}).Runs
	return !slices.Equal(was, w.runs)
}

// While the traffic stays as it is, so does the table, though counts are never twice the same.
func TestTableHoldsStill(t *testing.T) {
	for _, c := range []struct {
		documents, routers int
		rate               float64
	}{{500, 1, 5}, {500, 3, 15}, {20, 8, 20}} {
		const seeds, periods = 2, 100
		changes := 0
		for seed := range uint64(seeds) {
			w := newTown(seed, 7, c.documents, c.routers)
			for range 30 {
				w.period(c.rate, 0)
			}
			for range periods {
				if w.period(c.rate, 0) {
					changes++
				}
			}
			if len(w.runs) == 0 || len(w.runs) > 64 {
				t.Errorf("%+v: %d runs", c, len(w.runs))
			}
		}
		if changes > seeds*periods/10 {
			t.Errorf("%+v: %d tables in %d periods", c, changes, seeds*periods)
		}
	}
}

// What becomes a quarter of the traffic is hot after two periods.
func TestTableFollowsFashion(t *testing.T) {
	for seed := range uint64(5) {
		w := newTown(seed, 7, 500, 3)
		for range 30 {
			w.period(20, 0)
		}
		w.period(20, 0.25)
		w.period(20, 0.25)
		fashion := uint64(1<<33 + 500<<10)
		i := slices.IndexFunc(w.runs, func(r Run) bool { return r.First == fashion })
		if i < 0 || w.runs[i].Servers < 2 {
			t.Errorf("seed %d: %v", seed, w.runs)
		}
	}
}
