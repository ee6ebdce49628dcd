package node

import (
	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/routing"
)

// measured takes in what a backend says of its cache; 0: unknown. What an incarnation says that is gone is passed over.
func (r *replica) measured(key loads.Key, tokens int) {
	for _, b := range r.epochs.newest().Backends() {
		if b.ID == key.ID && b.Incarnation != key.Incarnation {
			return
		}
	}
	r.picker.SetCapacity(key.ID, tokens)
}

// caches are the backends whose capacity matters: all that are active.
func caches(e *routing.Epoch) []probe.Target {
	var out []probe.Target
	for _, b := range e.Backends() {
		if b.State == routing.Active {
			out = append(out, probe.Target{ID: b.ID, Incarnation: b.Incarnation, URL: b.URL})
		}
	}
	return out
}
