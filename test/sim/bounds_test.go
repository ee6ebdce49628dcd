package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/node"
)

// How long things may take, in virtual time.
const (
	// formLimit is for a cluster to begin: gossip meets (under a second, or with the next look at seeds that hang, after
	// 4 s), all have answered one another, and the founder is elected at once, or in 1 to 2 s if a vote was lost.
	formLimit = 10 * time.Second
	// electLimit is for a successor: 1 to 2 s of silence, a vote, and once more if the first vote was split.
	electLimit = 5 * time.Second
	// commitLimit is for the first epoch under a new leader, through another router that must learn who it is.
	commitLimit = 5 * time.Second
	// healLimit is for one membership and one epoch: gossip tries its seeds every 15 s, and raft, whose pauses between
	// attempts double up to 10.24 s, needs as long to reach a follower again.
	healLimit = 30 * time.Second
)

// neverTwo fails the test if routers have epochs of two clusters, now or one after the other.
func neverTwo(w *World, c *Cluster) {
	first := ""
	w.Always("one cluster", func() error {
		for _, r := range c.Routers {
			s, ok := r.State()
			if !ok || s.Cluster == "" || s.Number == 0 {
				continue
			}
			if first == "" {
				first = s.Cluster
			}
			if s.Cluster != first {
				return fmt.Errorf("clusters %s and %s have epochs, the latter on %s", first, s.Cluster, r.Name)
			}
		}
		return nil
	})
}

// settles waits until the cluster has settled, and checks that it did so without a new generation.
func settles(w *World, what string, limit time.Duration, c *Cluster) {
	w.Soon(what, limit, c.Settled)
	if s := c.States()[0]; s.Generation != 1 {
		w.Errorf("there is a generation %d", s.Generation)
	}
}

// are the routers that run and have one of these roles.
func (c *Cluster) are(roles ...string) []*Router {
	var all []*Router
	for _, r := range c.Routers {
		if s, ok := r.State(); ok && slices.Contains(roles, s.Role) {
			all = append(all, r)
		}
	}
	return all
}

// seated says whether so many routers vote and all of them are there, as the leader sees it.
func (c *Cluster) seated(n int) func() bool {
	return func() bool {
		leader := c.Leader()
		if leader == nil {
			return false
		}
		voters := leader.Node().Cluster().Voters
		return len(voters) == n && !slices.ContainsFunc(voters, func(v string) bool { return strings.Contains(v, "away") })
	}
}

// shuffled gives each router its seeds in another order.
func shuffled(w *World) func(*node.Config) {
	return func(cfg *node.Config) {
		join := cfg.Cluster.Join
		w.Rand.Shuffle(len(join), func(i, j int) { join[i], join[j] = join[j], join[i] })
	}
}

// draw divides some routers into a first part of n and the rest, at random.
func draw(w *World, routers []*Router, n int) (part, rest []*Router) {
	for i, j := range w.Rand.Perm(len(routers)) {
		if i < n {
			part = append(part, routers[j])
		} else {
			rest = append(rest, routers[j])
		}
	}
	return part, rest
}
