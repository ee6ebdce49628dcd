package routing

// Constants of the cost of the `auto` form, fitted on recorded workloads.
const (
	// attention is the prompt length, in tokens, at which attention costs as much
	// as all else.
	attention = 36000
	// reload weighs a prompt that has to be processed again.
	reload = 2
	// perRequest is the cost of a request in flight, in token equivalents.
	perRequest = 100
)

// measure is what a strategy minimises.
type measure uint8

const (
	level     measure = iota // all are equal: the ranking alone decides
	perWeight                // requests in flight per weight
	prefill                  // work until the first token, and load
)

// measure of the strategy; that of a fixed prefix length counts once all are at
// the bound.
func (c *choice) measure() measure {
	switch c.form() {
	case random:
		return level
	case auto:
		return prefill
	default:
		return perWeight
	}
}

// cost of candidate i.
func (c *choice) cost(m measure, i int) float64 {
	l := c.loads[i]
	switch m {
	case prefill:
		x := float64(l.pending() + perRequest*int64(l.requests()))
		if i != c.acting {
			x += c.whole
		}
		return x
	case perWeight:
		return float64(l.requests()) / c.place.group.keys.weights[i]
	default: // level
		return 0
	}
}

// work is TE(a, b): the cost of processing the tokens a to b of a prompt, in
// token equivalents.
func work(a, b int) float64 {
	return float64(b-a) * (1 + float64(a+b)/(2*attention))
}

// have is how many tokens of the prompt candidate i is expected to hold. There is
// no directory of placements yet: the first of the ranking is trusted to hold all.
func (c *choice) have(i int) int {
	if i == c.acting {
		return c.place.tokens
	}
	return 0
}

// charge is what the request adds to the pending prefill work of candidate i. The
// one that is trusted is charged for half: nobody knows whether it holds the
// prompt, and if it were charged nothing, a burst of new prompts with one
// beginning would all go there.
func (c *choice) charge(i int) int64 {
	x := work(0, c.place.tokens)
	if f := c.form(); i == c.acting && (f == fixed || f == auto) {
		x /= 2
	}
	return int64(x)
}
