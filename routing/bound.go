package routing

import "math"

// Constants of the relative bound.
const (
	// spread is c: how far above its share of the load a backend may be.
	spread = 1.25
	// slack is how far above it may always be, in requests: a purely relative
	// bound spills a quarter of the requests at a few in flight.
	slack = 4
)

// bounded is the choice with a fixed prefix length: the first of the ranking
// while it is below the bound, else the lighter of the next two that are, else
// the least loaded.
func (c *choice) bounded() int {
	b := c.bound()
	homeFull := c.status(c.place.home) == full
	if !homeFull && b.allows(c, c.acting) {
		return c.acting
	}
	second := c.next(&b, -1)
	if second < 0 {
		return c.least(perWeight, c.place.pin)
	}
	third := c.next(&b, second)
	if third >= 0 && c.cost(perWeight, third) < c.cost(perWeight, second) {
		return third
	}
	return second
}

// next returns the first of the ranking that may be chosen and is below the
// bound, except one; -1 if there is none.
func (c *choice) next(b *bound, except int) int {
	best, top := -1, -1.0
	for i := range c.loads {
		if i == except || c.status(i) > c.worst || !b.allowsSpill(c, i) {
			continue
		}
		if s := c.place.group.keys.score(i, c.place.pin); s > top {
			best, top = i, s
		}
	}
	return best
}

// bound is where requests spill: at the policy's threshold or, without one, where
// a backend's share of the load says (bounded-load consistent hashing, Mirrokni,
// Thorup and Zadimoghaddam 2018, with an absolute slack).
type bound struct {
	threshold int
	total     int     // requests in flight in the group
	weights   float64 // of those that carry them
}

func (c *choice) bound() bound {
	b := bound{threshold: c.place.group.policy.ConcurrencyThreshold}
	if b.threshold > 0 {
		return b
	}
	for i, l := range c.loads {
		if c.panicking || !l.shut(c.now) {
			b.total += l.requests()
			b.weights += c.place.group.keys.weights[i]
		}
	}
	return b
}

// allows reports whether candidate i may take one more request of its own keys.
func (b *bound) allows(c *choice, i int) bool {
	inflight := c.loads[i].requests()
	if b.threshold > 0 {
		return inflight < b.threshold
	}
	share := c.place.group.keys.weights[i] / b.weights
	most := max(math.Ceil(spread*share*float64(b.total+1)), share*float64(b.total)+slack)
	return float64(inflight) < most
}

// allowsSpill reports whether candidate i may take a request that another one has
// no room for. Under the relative bound that ends at the plain share (c = 1, no
// slack): a key with a lot of traffic must not displace those that live elsewhere.
func (b *bound) allowsSpill(c *choice, i int) bool {
	if b.threshold > 0 {
		return b.allows(c, i)
	}
	share := c.place.group.keys.weights[i] / b.weights
	return float64(c.loads[i].requests()) < math.Ceil(share*float64(b.total+1))
}
