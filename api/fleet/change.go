package fleet

import (
	"slices"

	"github.com/warmring/warmring/routing"
)

// Change is the step from e to an epoch that has what f names. A backend that is
// new, moved or drained begins in the given state; one that is Active at its
// address stays so. Without prune nothing is taken out. With prune what f does not name goes:
// endpoints at once; backends drain, or go at once if their endpoint or variant does; those that
// a source of their own lists (DNS, a lease) stay as long as their place does.
func (f Fleet) Change(e *routing.Epoch, state routing.State, prune bool) routing.Change {
	var others []routing.Endpoint
	if !prune {
		others = e.Endpoints()
	}
	endpoints, backends := f.Routing(state, others...)
	c := routing.Diff(e, endpoints, backends)
	unnamed := c.RemoveBackends
	c.RemoveBackends = nil
	if !prune {
		c.RemoveEndpoints = nil
		return c
	}
	for _, b := range e.Backends() {
		switch {
		case !slices.Contains(unnamed, b.ID):
		case !hasPlace(endpoints, &b):
			c.RemoveBackends = append(c.RemoveBackends, b.ID)
		case b.State != routing.Draining && b.Source == "":
			c.Drain = append(c.Drain, b.ID)
		}
	}
	return c
}

func hasPlace(endpoints []routing.Endpoint, b *routing.Backend) bool {
	return slices.ContainsFunc(endpoints, func(e routing.Endpoint) bool {
		return e.Name == b.Endpoint && slices.ContainsFunc(e.Variants, func(v routing.Variant) bool { return v.Name == b.Variant })
	})
}
