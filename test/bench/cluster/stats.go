package main

import (
	"slices"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// percentile is the nearest-rank percentile p (0..100), 0 when there is no value. It sorts values.
func percentile(values []time.Duration, p float64) time.Duration {
	slices.Sort(values)
	return sheet.Percentile(values, p)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share is part of whole in percent.
func share(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
