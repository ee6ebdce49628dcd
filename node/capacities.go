package node

import (
	"sync"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/routing"
)

// capacities are the KV capacities that backends told, in tokens.
type capacities struct {
	mu     sync.Mutex // guards tokens
	tokens map[string]int
}

func (c *capacities) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[id]
}

func (c *capacities) set(id string, tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens == nil {
		c.tokens = map[string]int{}
	}
	if tokens > 0 {
		c.tokens[id] = tokens
	} else {
		delete(c.tokens, id)
	}
}

// measured takes in what a backend says of its cache; 0: unknown. What an incarnation says that is gone is passed over.
func (r *replica) measured(key loads.Key, tokens int) {
	for _, b := range r.epochs.newest().Backends() {
		if b.ID == key.ID && b.Incarnation != key.Incarnation {
			return
		}
	}
	r.capacities.set(key.ID, tokens)
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
