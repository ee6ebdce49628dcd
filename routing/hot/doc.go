// Package hot finds the prefixes that carry so much traffic that one model server is not enough for them. Each router counts
// the chunks of its requests in a [Sketch]; one of them makes a table of what all counted with [Make].
//
// Chunks are known by their hashes only. As the hash of a chunk covers all text before it, a chunk has one parent, the
// chunks that were counted form a forest, and a chunk has never more visits than its parent.
//
// The package is pure: no I/O, no clock, no goroutines. Make is a function of its arguments, whatever their order.
package hot

import (
	"math"
	"time"
)

// halfLife is how long a visit takes to count half.
const halfLife = 30 * time.Second

// Factor is what a sketch decays by over a period, from 0 to 1. A period below 0 is 0.
func Factor(period time.Duration) float64 {
	return math.Exp2(-max(0, period.Seconds()) / halfLife.Seconds())
}
