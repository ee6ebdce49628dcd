package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/sim/simnet"
)

// Cluster is some routers that know of each other.
type Cluster struct {
	Routers []*Router
	rules   *rules
}

// Cluster starts n routers, n00 and so on, in front of model servers, and watches them: one leader in a term, one content
// for an epoch, no epoch that falls. Each tweak changes every router's configuration.
func (w *World) Cluster(n int, models []*Model, tweak ...func(*node.Config)) *Cluster {
	c := &Cluster{rules: newRules()}
	names := w.freeNames("n", n)
	for _, name := range names {
		w.Host(name)
		c.Routers = append(c.Routers, w.router(name, models, append([]func(*node.Config){join(w, name, names)}, tweak...)))
	}
	w.mu.Lock()
	w.describe = append(w.describe, c.String)
	w.mu.Unlock()
	w.Always("cluster", func() error { return c.rules.look(c.States()) })
	return c
}

// join makes a router look for all others.
func join(w *World, name string, all []string) func(*node.Config) {
	return func(cfg *node.Config) {
		cfg.Peer.Listen, cfg.Peer.Insecure = w.Host(name).IP().String()+":"+peerPort, true
		cfg.Cluster.Expect = min(len(all)-1+len(all)%2, 5) // odd
		for _, other := range all {
			if other != name {
				cfg.Cluster.Join = append(cfg.Cluster.Join, other+":"+peerPort)
			}
		}
	}
}

// States are those of the routers that run.
func (c *Cluster) States() []State {
	var all []State
	for _, r := range c.Routers {
		if s, ok := r.State(); ok {
			all = append(all, s)
		}
	}
	return all
}

// String is a line for each router that runs.
func (c *Cluster) String() string {
	var b strings.Builder
	for _, r := range c.Routers {
		if s, ok := r.State(); ok {
			fmt.Fprintf(&b, "%s: ready %t, epoch %d.%d %016x, %s in term %d, leader %q, members %v\n",
				s.Router, s.Ready, s.Generation, s.Number, s.Digest, s.Role, s.Term, s.Leader, r.members())
		}
	}
	return b.String()
}

// Settled says whether all routers that run are ready, have the same epoch, know each other and no other, and follow one
// leader, as far as they know it.
func (c *Cluster) Settled() bool {
	states := c.States()
	leaders := map[string]bool{}
	for _, s := range states {
		first := states[0]
		if !s.Ready || s.Generation != first.Generation || s.Number != first.Number || s.Digest != first.Digest {
			return false
		}
		if s.Clustered != first.Clustered {
			return false
		}
		if s.Leader != "" {
			leaders[s.Leader] = true
		}
		if s.leads() {
			leaders[s.Router] = true
		}
	}
	if len(states) == 0 || !states[0].Clustered {
		return len(states) > 0
	}
	return len(leaders) == 1 && c.know(len(states))
}

// know says whether each router that runs knows so many.
func (c *Cluster) know(n int) bool {
	return !slices.ContainsFunc(c.Routers, func(r *Router) bool {
		_, runs := r.State()
		return runs && len(r.members()) != n
	})
}

// Leader is the router that leads, nil if none does; of two, for a moment after a split, that of the later term.
func (c *Cluster) Leader() *Router {
	var leader *Router
	term := uint64(0)
	for _, r := range c.Routers {
		if s, ok := r.State(); ok && s.leads() && (leader == nil || s.Term > term) {
			leader, term = r, s.Term
		}
	}
	return leader
}

// NewLeader says whether another router than this one leads; for Soon.
func (c *Cluster) NewLeader(than *Router) func() bool {
	return func() bool {
		l := c.Leader()
		return l != nil && l != than
	}
}

// Others are the routers without these.
func (c *Cluster) Others(without ...*Router) []*Router {
	return slices.DeleteFunc(slices.Clone(c.Routers), func(r *Router) bool { return slices.Contains(without, r) })
}

// HostsOf are the hosts of some routers, for a fault.
func HostsOf(routers ...*Router) simnet.Group {
	var g simnet.Group
	for _, r := range routers {
		g = append(g, r.Host)
	}
	return g
}

// Names are the routers' names, for a plan.
func (c *Cluster) Names() []string {
	var names []string
	for _, r := range c.Routers {
		names = append(names, r.Name)
	}
	return names
}
