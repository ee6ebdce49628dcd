package main

import (
	"slices"
	"time"
)

// median leaves its argument alone. Of an even number it takes the mean of the middle two;
// of none it is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

// round is what one target did in its slice of one round.
type round struct {
	done     int
	events   int // events of streams among them, 0 without streams
	p50, p99 time.Duration
	elapsed  time.Duration
	cpu      time.Duration // run time of the proxy's threads; negative when unknown
}

// series is one target's measured rounds under one load.
type series []round

func (s series) median(value func(round) float64) float64 {
	values := make([]float64, len(s))
	for i, r := range s {
		values[i] = value(r)
	}
	return median(values)
}

// added is the median over rounds of (s minus base) within the same round, so that a busy
// minute of the machine counts on both sides.
func (s series) added(base series, value func(round) float64) float64 {
	n := min(len(s), len(base))
	diffs := make([]float64, n)
	for i := range n {
		diffs[i] = value(s[i]) - value(base[i])
	}
	return median(diffs)
}

func p50us(r round) float64 { return us(r.p50) }
func p99us(r round) float64 { return us(r.p99) }

func perSecond(r round) float64 {
	if r.elapsed <= 0 {
		return 0
	}
	return float64(r.done) / r.elapsed.Seconds()
}

func cpuPer10k(r round) float64 {
	if r.done == 0 || r.cpu < 0 {
		return 0
	}
	return r.cpu.Seconds() / float64(r.done) * 10_000
}

func cpuPerEventUs(r round) float64 {
	if r.events == 0 || r.cpu < 0 {
		return 0
	}
	return us(r.cpu) / float64(r.events)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
