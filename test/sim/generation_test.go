package sim

import (
	"testing"
	"time"

	"github.com/warmring/warmring/node"
)

// All voters are lost with their memory. Who is left serves on; with new routers at the old addresses it is more than half
// again, and founds the next generation of the same cluster with the newest epoch that it has.
func TestAllVotersAreLost(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		const patience = 20 * time.Second
		c := w.Cluster(8, w.Models(4), func(cfg *node.Config) { cfg.Consensus.NewGenerationAfter = patience })
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("a write", commitLimit, o.Writes(c.Routers[0]))
		settles(w, "and everybody has it", healLimit, c)
		w.Soon("three subscribers", formLimit, func() bool { return len(c.are("subscriber")) == 3 })
		left := c.are("subscriber")
		voters := c.Others(left...)
		load := w.Clients(c.Routers, Load{Rate: 5, Over: time.Minute, Stream: 0.5})
		time.Sleep(2 * time.Second)
		for _, r := range voters {
			r.Kill()
		}
		lost := time.Now()
		time.Sleep(10 * time.Second)
		refused(w, o, left[0])
		for _, r := range voters {
			r.Restart()
		}
		w.Soon("the new ones serve", formLimit, func() bool { return allReady(voters) })
		// Patience, then a ballot and an election.
		w.Soon("a new generation", patience+formLimit+electLimit, func() bool { return c.Settled() && c.States()[0].Generation == 2 })
		w.waits.add("from the loss to the new generation", time.Since(lost))
		for _, r := range c.Routers {
			if weight := r.Node().Epoch().Backends()[0].Weight; weight != o.acked[0].weight {
				w.Errorf("%s has weight %v, and %v was acknowledged", r.Name, weight, o.acked[0].weight)
			}
		}
		w.Soon("another write", commitLimit, o.Writes(left[0]))
		load.Wait().LostOnly(voters...)
	})
}

func allReady(routers []*Router) bool {
	for _, r := range routers {
		if !r.Ready() {
			return false
		}
	}
	return true
}

// Who comes to a cluster without a quorum serves with the others' epoch.
func TestARouterJoinsWithoutAQuorum(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(5, w.Models(4))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("a write", commitLimit, o.Writes(c.Routers[0]))
		settles(w, "and everybody has it", healLimit, c)
		lost, left := draw(w, c.Routers, 3)
		for _, r := range lost {
			r.Kill()
		}
		time.Sleep(10 * time.Second)
		refused(w, o, left[0])
		r := w.Router(nil, func(cfg *node.Config) {
			join(w, cfg.Router.Name, c.Names())(cfg)
			cfg.Cluster.Expect, cfg.Endpoints = 5, nil // what it knows, it has from the others
		})
		w.Soon("it serves", commitLimit, r.Ready)
		is, _ := r.State()
		if was, _ := left[0].State(); is.Generation != 1 || is.Number != was.Number || is.Digest != was.Digest {
			w.Errorf("epoch %d.%d %016x, want %d.%d %016x", is.Generation, is.Number, is.Digest, was.Generation, was.Number, was.Digest)
		}
		w.Clients([]*Router{r}, Load{Over: 5 * time.Second, Stream: 0.5}).Wait().LostOnly()
		for _, r := range lost {
			r.Restart()
		}
		w.Soon("all are ready", formLimit, func() bool { return allReady(c.Routers) })
		w.Soon("a new generation", time.Minute+formLimit+electLimit, func() bool { s, _ := r.State(); return s.Generation == 2 })
	})
}
