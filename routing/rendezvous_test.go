package routing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func keysOf(ids []string, weight func(i int) float64) *keys {
	k := &keys{}
	for i, id := range ids {
		k.add(id, 7, weight(i))
	}
	return k
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("gpu-%04d", i)
	}
	return out
}

func one(int) float64 { return 1 }

func TestFirstIsTheHighestScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.OneOf(rapid.Float64Range(1e-6, 1e6), rapid.SampledFrom([]float64{1, 2}), rapid.Just(1.0))
		weights := rapid.SliceOfN(weight, 1, 40).Draw(t, "weights")
		if rapid.Bool().Draw(t, "even") {
			weights = slices.Repeat(weights[:1], len(weights))
		}
		k := keysOf(ids(len(weights)), func(i int) float64 { return weights[i] })
		pin := rapid.Uint64().Draw(t, "pin")
		best := 0
		for i := range weights {
			if s := k.score(i, pin); math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
				t.Fatalf("score %v", s)
			}
			if k.score(i, pin) > k.score(best, pin) {
				best = i
			}
		}
		if got := k.first(pin); got != best {
			t.Fatalf("first = %d (%v), want %d (%v)", got, k.score(got, pin), best, k.score(best, pin))
		}
	})
	if (&keys{}).first(1) != -1 {
		t.Error("first of none")
	}
}

func TestScoreAtTheEdges(t *testing.T) {
	for _, gap := range []uint64{0, 1, unit - 2, unit - 1} {
		s := 1 / -math.Log1p(-(float64(gap)+0.5)/unit)
		if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
			t.Errorf("gap %d: score %v", gap, s)
		}
	}
}

// Row 19: a new server takes its share from all, and no other key moves. Read the
// other way: of a server that is removed, only its own keys move, to all others.
func TestFewKeysMove(t *testing.T) {
	const pins = 50000
	for _, n := range []int{2, 7, 16, 100} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			all := ids(n + 1)
			before, after := keysOf(all[:n], one), keysOf(all, one)
			moved := 0
			losers := map[int]int{}
			for i := range uint64(pins) {
				pin := mix(i)
				was, is := before.first(pin), after.first(pin)
				if was == is {
					continue
				}
				moved++
				losers[was]++
				if is != n {
					t.Fatalf("pin %x moved from %d to %d, which was there before", pin, was, is)
				}
			}
			if got, want := float64(moved)/pins, 1/float64(n+1); math.Abs(got-want) > 0.02 {
				t.Errorf("%.4f of the keys moved, want %.4f", got, want)
			}
			if len(losers) < n*9/10 {
				t.Errorf("only %d of %d servers gave keys away", len(losers), n)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	const pins = 100000
	k := keysOf(ids(16), one)
	n := make([]int, 16)
	for i := range uint64(pins) {
		n[k.first(mix(i))]++
	}
	if most := float64(slices.Max(n)) * 16 / pins; most > 1.05 {
		t.Errorf("max/mean %.3f", most)
	}
}

func TestWeightsAreRespected(t *testing.T) {
	const pins = 100000
	weights := []float64{0.5, 1, 1, 2, 4}
	k := keysOf(ids(len(weights)), func(i int) float64 { return weights[i] })
	n := make([]int, len(weights))
	for i := range uint64(pins) {
		n[k.first(mix(i))]++
	}
	for i, w := range weights {
		if got, want := float64(n[i])/pins, w/8.5; math.Abs(got-want) > 0.01 {
			t.Errorf("weight %v: share %.4f, want %.4f", w, got, want)
		}
	}
}

// Raising a weight only draws keys towards it.
func TestWeightChangeMovesTowards(t *testing.T) {
	all := ids(9)
	before := keysOf(all, one)
	after := keysOf(all, func(i int) float64 { return []float64{1, 3}[min(1, i/8)] })
	for i := range uint64(20000) {
		pin := mix(i)
		if was, is := before.first(pin), after.first(pin); was != is && is != 8 {
			t.Fatalf("pin %x moved from %d to %d", pin, was, is)
		}
	}
}

func TestHashSeparatesIDFromSalt(t *testing.T) {
	a, b, c := &keys{}, &keys{}, &keys{}
	a.add("gpu-1", 1, 1)
	b.add("gpu-1\x00", 1, 1)
	c.add("gpu-1", 2, 1)
	if a.hashes[0] == b.hashes[0] || a.hashes[0] == c.hashes[0] {
		t.Error("equal hashes")
	}
}
