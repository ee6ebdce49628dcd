package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
)

// What may happen to five routers at any time: parts of the network, one direction of it, streams or datagrams fail, a
// router dies and returns, or stands still.
var anything = []Action{Split, OneWay, Streams, Datagrams, Slow, Kill, Pause}

// Epochs are agreed on whatever happens. Voters on disk are themselves again when they return, so a quorum always is.
func TestRandomFaultsWithLogs(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		plan := RandomPlan(w.Rand, []string{"n00", "n01", "n02", "n03", "n04"}, time.Minute, Mix{Actions: anything, Every: 5 * time.Second})
		survive(w, plan, healLimit, onDisk(w.t.TempDir()))
	})
}

// In memory a router that returns is new, and has its seat when the one it had before was given up. The plan kills two at
// most in that time, as many as a cluster of five can lose.
func TestRandomFaultsInMemory(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		plan := RandomPlan(w.Rand, []string{"n00", "n01", "n02", "n03", "n04"}, time.Minute, Mix{Actions: anything, Every: 5 * time.Second})
		kills := 0
		plan = slices.DeleteFunc(plan, func(s Step) bool {
			if s.Do == Kill {
				kills++
			}
			return s.Do == Kill && kills > 2
		})
		survive(w, plan, healLimit)
	})
}

// survive carries out a plan on five routers, under requests and changes, and waits until all is well again.
func survive(w *World, plan Plan, limit time.Duration, tweak ...func(*node.Config)) {
	c := w.Cluster(5, w.Models(4), tweak...)
	o := w.Operator(c)
	neverTwo(w, c)
	settles(w, "settled", formLimit, c)
	healed := w.Do(plan)
	load := w.Clients(c.Routers, Load{Rate: 5, Over: time.Minute, Stream: 0.5})
	stop := o.Work(100 * time.Millisecond)
	healed()
	// What was paused has its host's time to catch up too: a plan's last fault ends for all at once.
	settles(w, "one membership and one epoch", limit, c)
	acked, _ := stop()
	if acked == 0 {
		w.Errorf("no change was acknowledged")
	}
	settles(w, "and everybody has the last one", limit, c)
	load.Wait().LostOnly(hurt(c, plan)...)
	o.Kept()
}

// hurt are the routers that a plan kills or stops for a while: what they had in hand is lost or late.
func hurt(c *Cluster, plan Plan) []*Router {
	var all []*Router
	for _, r := range c.Routers {
		if slices.ContainsFunc(plan, func(s Step) bool {
			return (s.Do == Kill || s.Do == Pause) && slices.Contains(s.Hosts, r.Name)
		}) {
			all = append(all, r)
		}
	}
	return all
}
