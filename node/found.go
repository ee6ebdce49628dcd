package node

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/routing"
)

// What this router finds and the epoch lacks is announced to all, so that it does not matter which of them leads.
const (
	foundPrefix = "found/"
	foundTTL    = 3 * followEvery
)

// announceFound announces the backends that this router's discovery lists and the epoch does not have as listed.
func (r *replica) announceFound() {
	found, _ := r.discovery.Found()
	if len(found) == 0 {
		return
	}
	have := map[string]routing.Backend{}
	for _, b := range r.epochs.newest().Backends() {
		have[b.ID] = b
	}
	for _, f := range found {
		if b, ok := have[f.ID]; ok && b.URL == f.URL && b.Source == f.Source {
			continue
		}
		text, err := json.Marshal(f)
		if err == nil {
			err = r.gossip.Announce(foundPrefix+f.Source+"/"+f.ID, text, foundTTL)
		}
		if err != nil {
			r.log.Warn("a backend that was found cannot be announced", slog.String("backend", f.ID), slog.Any("error", err))
		}
	}
}

// found is what all routers' sources list, as far as this one knows, the sources of which that may not be all (those that
// gave this router no answer, and those that only others ask), and when the next lease runs out; zero: none does.
func (r *replica) found(now time.Time) (all []plan.Found, partial map[string]bool, next time.Time) {
	all, answers := r.discovery.Found() // has a key for every source of this router
	partial = maps.Clone(answers)
	leased, next := r.leases.Live(now)
	all = slices.Concat(all, leased)
	known := map[string]bool{}
	for _, f := range all {
		known[f.Source+"/"+f.ID] = true
	}
	for _, fact := range r.gossip.Facts() {
		var f plan.Found
		if key, ok := strings.CutPrefix(fact.Key, foundPrefix); !ok || fact.Origin == r.name || known[key] || json.Unmarshal(fact.Value, &f) != nil {
			continue
		}
		known[f.Source+"/"+f.ID] = true
		all = append(all, f)
		if _, own := answers[f.Source]; !own {
			partial[f.Source] = true
		}
	}
	return all, partial, next
}
