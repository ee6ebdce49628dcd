package routing

// ties weighs a request that some replica has in flight against one of this replica's own.
const ties = 1e-3

// measure is what a strategy minimises.
type measure uint8

const (
	even      measure = iota // all are equal: the ranking alone decides
	perWeight                // requests in flight per weight
	prefill                  // work until the first token, and load
)

// measure of the strategy; that of a fixed prefix length counts once all are at
// the bound.
func (c *choice) measure() measure {
	switch c.form() {
	case random:
		return even
	case auto:
		return prefill
	default:
		return perWeight
	}
}

// cost of candidate i.
func (c *choice) cost(m measure, i int) float64 {
	switch m {
	case prefill:
		return c.warmth(i)
	case perWeight:
		if c.form() == least {
			// Who takes the least of an old view of all takes what the others take: own requests first, all replicas' for ties.
			return (float64(c.loads[i].inflight) + ties*float64(c.loads[i].requests())) / c.place.group.keys.weights[i]
		}
		return float64(c.loads[i].requests()) / c.place.group.keys.weights[i]
	default: // even
		return 0
	}
}

// work is TE(a, b): the cost of processing the tokens a to b of a prompt, in
// token equivalents.
func work(a, b int) float64 {
	return float64(b-a) * (1 + float64(a+b)/(2*attention))
}

// charge is what the request adds to the pending prefill work of candidate i. With a fixed prefix length the home is
// charged for half: nobody knows whether it holds the prompt, and if it were charged nothing, a burst of new prompts with
// one beginning would all go there.
func (c *choice) charge(i int) int64 {
	switch c.form() {
	case auto:
		return max(1, int64(work(c.have(i), c.warm.prompt)))
	case fixed:
		if i == c.acting {
			return int64(work(0, c.place.Tokens()) / 2)
		}
	case random, least:
	}
	return int64(work(0, c.place.Tokens()))
}
