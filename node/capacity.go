package node

import (
	"log/slog"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/routing"
)

// measured takes in what a backend says of its cache. What an incarnation says that is gone is passed over.
func (r *replica) measured(key loads.Key, cache probe.Cache) {
	for _, b := range r.epochs.newest().Backends() {
		if b.ID == key.ID && b.Incarnation != key.Incarnation {
			return
		}
	}
	r.picker.SetCapacity(key.ID, cache.Tokens)
	if r.picker.SetLife(key.ID, key.Incarnation, routing.Life{Started: cache.Started, Prompts: cache.Prompts}) {
		r.log.Info("a backend was restarted: nothing is taken for cached there", slog.String("backend", key.ID), slog.Uint64("incarnation", key.Incarnation))
	}
}

// caches are the backends whose cache matters: all that are active.
func caches(e *routing.Epoch) []probe.Target {
	var out []probe.Target
	for _, b := range e.Backends() {
		if b.State == routing.Active {
			out = append(out, probe.Target{ID: b.ID, Incarnation: b.Incarnation, URL: b.URL, Endpoint: b.Endpoint})
		}
	}
	return out
}
