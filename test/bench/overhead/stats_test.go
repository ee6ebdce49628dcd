package main

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmring/warmring/test/bench/sheet"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	tests := []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 0, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{1, 2}, 50, 1},
		{[]time.Duration{1, 2, 3}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	}
	for _, tt := range tests {
		if got := sheet.Percentile(tt.sorted, tt.p); got != tt.want {
			t.Errorf("p%g of %d values = %d, want %d", tt.p, len(tt.sorted), got, tt.want)
		}
	}
}

// At least p percent of the values are at or below the percentile, and fewer are below it.
func TestPercentileIsARank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 200).Draw(t, "values")
		p := rapid.Float64Range(0.1, 100).Draw(t, "p")
		sorted := make([]time.Duration, len(values))
		for i, v := range values {
			sorted[i] = time.Duration(v)
		}
		slices.Sort(sorted)
		got := sheet.Percentile(sorted, p)
		var below, upTo float64
		for _, v := range sorted {
			if v < got {
				below++
			}
			if v <= got {
				upTo++
			}
		}
		share := p / 100 * float64(len(sorted))
		if upTo < share || below >= share {
			t.Errorf("p%g of %v = %d: %g below, %g up to it", p, sorted, got, below, upTo)
		}
	})
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := slices.Clone(tt.in)
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %g, want %g", tt.in, got, tt.want)
		}
		if !slices.Equal(before, tt.in) {
			t.Errorf("median reordered %v to %v", before, tt.in)
		}
	}
}

// A busy round lifts both sides, so it must not show in what is added.
func TestAddedIsPairedWithinTheRound(t *testing.T) {
	of := func(us ...int) series {
		var s series
		for _, v := range us {
			s = append(s, round{p50: time.Duration(v) * time.Microsecond})
		}
		return s
	}
	own, base := of(130, 530, 131), of(30, 430, 30)
	if got := own.added(base, p50us); got != 100 {
		t.Errorf("added %g us, want 100", got)
	}
	if got := own.median(p50us); got != 131 {
		t.Errorf("median %g us, want 131", got)
	}
}

func TestRoundFigures(t *testing.T) {
	r := round{done: 500, events: 10_000, elapsed: 2 * time.Second, cpu: 200 * time.Millisecond}
	if got := perSecond(r); got != 250 {
		t.Errorf("%g requests/s", got)
	}
	if got := cpuPer10k(r); got != 4 {
		t.Errorf("%g CPU s per 10k", got)
	}
	if got := cpuPerEventUs(r); got != 20 {
		t.Errorf("%g us per event", got)
	}
	r.cpu = -1
	if cpuPer10k(r) != 0 || cpuPerEventUs(r) != 0 || perSecond(round{}) != 0 {
		t.Error("an unknown figure is not 0")
	}
}
