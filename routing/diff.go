package routing

import "slices"

// Diff returns the change that makes e's fleet the wanted one. A wanted backend's
// incarnation is ignored, and one that is Joining stays Active where e has it so
// at the same URL. A caller who cares for requests in flight drains what
// RemoveBackends names, waits, and only then applies the rest.
func Diff(e *Epoch, endpoints []Endpoint, backends []Backend) Change {
	var c Change
	wanted := make(map[string]Endpoint, len(endpoints))
	for _, ep := range endpoints {
		wanted[ep.Name] = ep
		i := slices.IndexFunc(e.endpoints, func(have Endpoint) bool { return have.Name == ep.Name })
		if i < 0 || !equalEndpoints(&e.endpoints[i], &ep) {
			c.PutEndpoints = append(c.PutEndpoints, cloneEndpoint(ep))
		}
	}
	for _, ep := range e.endpoints {
		if _, ok := wanted[ep.Name]; !ok {
			c.RemoveEndpoints = append(c.RemoveEndpoints, ep.Name)
		}
	}
	e.diffBackends(&c, wanted, backends)
	return c
}

func (e *Epoch) diffBackends(c *Change, endpoints map[string]Endpoint, backends []Backend) {
	have := make(map[string]Backend, len(e.backends))
	for _, b := range e.backends {
		have[b.ID] = b
	}
	wanted := make(map[string]bool, len(backends))
	for _, b := range backends {
		wanted[b.ID] = true
		b.Variant = onlyVariant(endpoints, &b)
		old, known := have[b.ID]
		if known && b.State == Joining && old.State == Active && old.URL == b.URL {
			b.State = Active
		}
		b.Incarnation = old.Incarnation
		if !known || b != old {
			c.PutBackends = append(c.PutBackends, b)
		}
	}
	for _, b := range e.backends {
		if !wanted[b.ID] {
			c.RemoveBackends = append(c.RemoveBackends, b.ID)
		}
	}
}

func equalEndpoints(a, b *Endpoint) bool {
	return a.Name == b.Name && slices.Equal(a.Aliases, b.Aliases) &&
		slices.Equal(a.Adapters, b.Adapters) && slices.Equal(a.Variants, b.Variants)
}

// onlyVariant is the backend's variant, or the only one of its endpoint.
func onlyVariant(endpoints map[string]Endpoint, b *Backend) string {
	if ep := endpoints[b.Endpoint]; b.Variant == "" && len(ep.Variants) == 1 {
		return ep.Variants[0].Name
	}
	return b.Variant
}
