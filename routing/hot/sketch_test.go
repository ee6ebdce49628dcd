package hot

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const testRoot = 1 << 60

// line is a chain of n chunks with consecutive hashes from the first on.
func line(first uint64, n int) []uint64 {
	chain := make([]uint64, n)
	for i := range chain {
		chain[i] = first + uint64(i)
	}
	return chain
}

func lows(s *Sketch) map[uint64]float64 {
	out := map[uint64]float64{}
	for _, c := range s.Report(0, math.MaxInt).Counts {
		out[c.Chunk] = c.Visits
	}
	return out
}

// sound checks what ties the parts of a sketch together.
func sound(t rapid.TB, s *Sketch) {
	t.Helper()
	if len(s.counters) > s.capacity || len(s.smallest) != len(s.counters) {
		t.Fatalf("%d counters, %d in the heap, capacity %d", len(s.counters), len(s.smallest), s.capacity)
	}
	used := 0
	for _, slot := range s.places.slots {
		used += min(1, int(slot))
	}
	if used != len(s.counters) {
		t.Fatalf("%d places for %d counters", used, len(s.counters))
	}
	for i, c := range s.counters {
		if got := s.places.find(c.chunk, s.counters); got != i {
			t.Fatalf("counter %d of chunk %x is found at %d", i, c.chunk, got)
		}
	}
	seen := map[int32]bool{}
	for i, r := range s.smallest {
		if seen[r.at] {
			t.Fatalf("counter %d is twice in the heap", r.at)
		}
		seen[r.at] = true
		if i > 0 && s.smallest[(i-1)/2].count > r.count {
			t.Fatalf("heap is out of order at %d", i)
		}
		if r.count > s.counters[r.at].count()*(1+1e-5) {
			t.Fatalf("heap has %v for a count of %v", r.count, s.counters[r.at].count())
		}
	}
}

func TestAddLetsDepthDouble(t *testing.T) {
	s := NewSketch(4096)
	chain := line(1, 100)
	for _, want := range []int{4, 8, 16, 32, 64, 100, 100} {
		s.Add(testRoot, chain, 0)
		if got := s.Stats().Counters; got != want {
			t.Fatalf("%d counters, want %d", got, want)
		}
	}
	// Known chunks of a fork count as known: 8 of 64 let 8 more in.
	s.Add(testRoot, append(line(1, 8), line(1000, 50)...), 0)
	if got := s.Stats().Counters; got != 108 {
		t.Errorf("%d counters, want 108", got)
	}
	if got := lows(s)[1]; got != 8 {
		t.Errorf("the first chunk has %v visits, want 8", got)
	}
}

func TestAddGoesOnBehindAGap(t *testing.T) {
	s := NewSketch(64)
	s.Add(testRoot, []uint64{3, 4, 5, 6}, 0)
	s.Add(testRoot, []uint64{1, 2, 3, 4, 5, 6}, 0)
	got := lows(s)
	for chunk, want := range map[uint64]float64{1: 1, 2: 1, 3: 2, 6: 2} {
		if got[chunk] != want {
			t.Errorf("chunk %d has %v visits, want %v", chunk, got[chunk], want)
		}
	}
}

func TestReportTellsParentsAndLargest(t *testing.T) {
	s := NewSketch(64)
	for range 3 {
		s.Add(testRoot, []uint64{30, 10}, 100)
	}
	s.Add(testRoot, []uint64{30, 20}, 200)
	all := s.Report(0, 10)
	want := []Count{{10, 30, 3}, {20, 30, 1}, {30, testRoot, 4}}
	if !slices.Equal(all.Counts, want) || all.Requests != 4 || all.Written != 125 {
		t.Errorf("%+v, want %v of 4 requests that write 125", all, want)
	}
	for _, c := range []struct {
		floor float64
		most  int
		want  []Count
	}{
		{1.5, 10, []Count{want[0], want[2]}},
		{0, 2, []Count{want[0], want[2]}},
		{0, 1, []Count{want[2]}},
		{3, 9, []Count{want[0], want[2]}},
		{5, 9, nil},
		{0, 0, nil},
		{0, -1, nil},
		{math.NaN(), 9, nil},
	} {
		if got := s.Report(c.floor, c.most).Counts; !slices.Equal(got, c.want) {
			t.Errorf("Report(%v, %d) has %v, want %v", c.floor, c.most, got, c.want)
		}
	}
}

func TestWrittenIsARunningMean(t *testing.T) {
	s := NewSketch(1)
	for range 2000 {
		s.Add(testRoot, nil, 100)
	}
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		s.Add(testRoot, nil, odd)
	}
	if got := s.Report(0, 0); got.Written != 100 || got.Requests != 2004 {
		t.Errorf("%+v, want 2004 requests that write 100", got)
	}
	for range 500 {
		s.Add(testRoot, nil, 1100)
	}
	if got := s.Report(0, 0).Written; math.Abs(got-(1100-1000/math.E)) > 1 {
		t.Errorf("mean %v 500 requests after a step from 100 to 1100, want %v", got, 1100-1000/math.E)
	}
}

func TestDecayHalvesInHalfAMinute(t *testing.T) {
	s := NewSketch(8)
	for range 8 {
		s.Add(testRoot, []uint64{1}, 0)
	}
	for range 6 {
		s.Decay(Factor(5 * time.Second))
	}
	r := s.Report(0, 1)
	if math.Abs(r.Requests-4) > 1e-6 || math.Abs(r.Counts[0].Visits-4) > 1e-5 {
		t.Errorf("%+v, want 4 requests and visits", r)
	}
	for _, odd := range []float64{math.NaN(), math.Inf(1), -0.5, 1.5} {
		s.Decay(odd)
	}
	if got := s.Report(0, 1); got.Requests != r.Requests || got.Counts[0] != r.Counts[0] {
		t.Errorf("a factor that is none changed %+v to %+v", r, got)
	}
	if Factor(-time.Second) != 1 || Factor(0) != 1 || Factor(30*time.Second) != 0.5 {
		t.Error("factors of -1, 0, 30 s are not 1, 1, 0.5")
	}
}

func TestResizeKeepsTheLargest(t *testing.T) {
	s := NewSketch(100)
	for i := range uint64(50) {
		for range i + 1 {
			s.Add(testRoot, []uint64{i}, 0)
		}
	}
	s.Resize(10)
	sound(t, s)
	got := lows(s)
	for i := range uint64(50) {
		if want := float64(i + 1); i >= 40 && got[i] != want || i < 40 && got[i] != 0 {
			t.Errorf("chunk %d has %v visits", i, got[i])
		}
	}
	s.Add(testRoot, []uint64{777}, 0)
	if st := s.Stats(); st.Counters != 10 || st.Capacity != 10 || st.Evictions != 1 {
		t.Errorf("%+v, want 10 of 10 and 1 eviction", st)
	}
	s.Resize(1000)
	sound(t, s)
	if st := s.Stats(); st.Counters != 10 || st.Capacity != 1000 || len(lows(s)) != 10 {
		t.Errorf("%+v, want 10 of 1000", st)
	}
	for _, odd := range []int{0, -5} {
		s.Resize(odd)
		if st := s.Stats(); st.Counters != 1 || st.Capacity != 1 || lows(s)[49] != 50 {
			t.Errorf("resized to %d: %+v", odd, st)
		}
	}
}

// The error of a counter bounds what came before it, and nobody with more than a fair share of the visits is left out. What
// is counted is what Add lets in: with chains of at most four that is everything.
func TestSketchBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSketch(rapid.IntRange(1, 40).Draw(t, "counters"))
		truth, total := map[uint64]float64{}, 0.0
		for range rapid.IntRange(0, 300).Draw(t, "requests") {
			if rapid.IntRange(0, 30).Draw(t, "decay") == 0 {
				f := rapid.Float64Range(0.1, 1).Draw(t, "factor")
				s.Decay(f)
				total *= f
				for c := range truth {
					truth[c] *= f
				}
			}
			first := uint64(rapid.IntRange(1, 30).Draw(t, "first"))
			chain := line(first*first%64*8, rapid.IntRange(1, 4).Draw(t, "length"))
			s.Add(testRoot, chain, 1)
			for _, c := range chain {
				truth[c]++
				total++
			}
		}
		sound(t, s)
		const ulps = 1e-4
		for _, c := range s.counters {
			if want := truth[c.chunk]; float64(c.low) > want+ulps || float64(c.count()) < want-ulps {
				t.Fatalf("chunk %d: %v to %v, visited %v", c.chunk, c.low, c.count(), want)
			}
		}
		for c, visits := range truth {
			if visits > total/float64(s.capacity)+ulps && s.places.find(c, s.counters) < 0 {
				t.Fatalf("chunk %d with %v of %v visits has none of %d counters", c, visits, total, s.capacity)
			}
		}
	})
}

func TestAddAllocatesNothing(t *testing.T) {
	s := NewSketch(256)
	chain := line(0, 1000)
	n := uint64(0)
	if got := testing.AllocsPerRun(100, func() {
		n += 500
		for i := range chain[500:] {
			chain[500+i] += n
		}
		s.Add(testRoot, chain, 1)
	}); got != 0 {
		t.Errorf("%v allocations a request", got)
	}
	sound(t, s)
}

func TestSketchIsSafe(t *testing.T) {
	s := NewSketch(64)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(300) {
				s.Add(testRoot, line(g*1000+i%50, 6), 1)
				switch i % 60 {
				case 10:
					s.Decay(0.9)
				case 20:
					s.Report(1, 10)
				case 30:
					s.Resize(32 + int(i%64))
				case 40:
					s.Stats()
				}
			}
		})
	}
	wg.Wait()
	sound(t, s)
}

// Chunks that all belong at one place of the table, which takes the cluster's salt to make, are counted like any others.
func TestCraftedCollisions(t *testing.T) {
	inverse := uint64(0xf1de83e19937733d) // of the factor in places.home, modulo 2^64
	s := NewSketch(512)
	if s.places.home(inverse*7) != 0 || s.places.home(inverse*700_000) != 0 {
		t.Fatal("they do not collide")
	}
	for i := range uint64(20_000) {
		s.Add(testRoot, []uint64{inverse, inverse * (2 + i)}, 1)
	}
	sound(t, s)
	if st := s.Stats(); st.Counters != 512 {
		t.Errorf("%+v", st)
	}
	if r := s.Report(10_000, 10); len(r.Counts) != 1 || r.Counts[0].Chunk != inverse || r.Counts[0].Visits != 20_000 {
		t.Errorf("%+v", r)
	}
}
