package hot

import "math"

const (
	// chance is how many square roots of a count are taken for noise. Visits come about as in a Poisson process; as they
	// decay, the variance of a count is half its mean.
	chance = 2
	// shrink is the part of (servers - 1) at or below which a chunk gives servers back.
	shrink = 0.7
)

// noise is how much of a count may be chance. What is agreed on stays while it may be chance that the counts say something
// else: every other table is an epoch, and moves prompts.
func noise(visits float64) float64 { return chance * math.Sqrt(max(0, visits)) }

// grows tells whether so many visits are too many for the servers that a chunk is spread over, each of which is there for a
// unit of visits. Who has one is not hot and becomes it at once: to wait costs more than a table that need not be.
func grows(visits, unit float64, servers int) bool {
	if servers > 1 {
		visits -= noise(visits)
	}
	return visits > float64(servers)*unit
}

// shrinks tells whether they are too few.
func shrinks(visits, unit float64, servers int) bool {
	return visits+noise(visits) <= shrink*float64(servers-1)*unit
}

// parts tells whether a run ends where so many visits have left since its start: more than are half a server's. It ends at once:
// those who leave it midway share a pin.
func parts(left, unit float64) bool { return left > unit/2 }

// joins tells whether two runs become one where so many have left since the start of the first.
func joins(left, unit float64) bool { return left+noise(left) <= unit/2 }
