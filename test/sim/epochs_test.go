package sim

import (
	"testing"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
)

// Routers get epochs one by one, many at once, as a whole after a gap, from their log or from another router. What they have
// had under one number is the same everywhere.
func TestEqualDigestsInAllHistories(t *testing.T) {
	Run(t, Options{Seeds: 3, Most: 8}, func(w *World) {
		c := w.Cluster(7, w.Models(2)) // five voters, two subscribers
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		healed := w.Do(RandomPlan(w.Rand, c.Names(), time.Minute, Mix{Actions: []Action{Pause, Slow, Split, Streams}}))
		stop := o.Work(50 * time.Millisecond)
		healed()
		if acked, _ := stop(); acked < 20 {
			w.Errorf("%d changes in a minute", acked)
		}
		settles(w, "one membership and one epoch", healLimit, c)
		o.Kept()
		digests := map[string]string{}
		for _, r := range c.Routers {
			var past []admin.EpochInfo
			if err := r.Get("epochs", &past); err != nil || len(past) < 5 {
				w.Fatalf("%s has a history of %d: %v", r.Name, len(past), err)
			}
			for _, e := range past {
				if other, ok := digests[e.ID]; ok && other != e.Digest {
					w.Errorf("epoch %s is %s and, on %s, %s", e.ID, other, r.Name, e.Digest)
				}
				digests[e.ID] = e.Digest
			}
		}
	})
}

// Seven of twelve routers have no vote. They follow, and two of them get the seats of voters that die.
func TestSubscribersFollowAndReplaceVoters(t *testing.T) {
	Run(t, Options{Seeds: 2, Most: 3}, func(w *World) {
		c := w.Cluster(12, w.Models(2))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("five voters and seven subscribers", formLimit, func() bool {
			return len(c.are("voter", "leader")) == 5 && len(c.are("subscriber")) == 7
		})
		load := w.Clients(c.Routers, Load{Rate: 20, Over: 100 * time.Second})
		for range 5 {
			w.Soon("a write", commitLimit, o.Writes(c.are("subscriber")[w.Rand.IntN(7)]))
			settles(w, "and all twelve have it", time.Second, c) // it is pushed
		}
		two, _ := draw(w, c.are("voter", "leader"), 2)
		for _, r := range two {
			r.Kill()
		}
		w.Soon("a write without the two", electLimit+commitLimit, o.Writes(c.are("subscriber")[0]))
		settles(w, "the two are gone from the membership", healLimit, c)
		// 15 s of silence, then one after the other is fed, gets a vote, and takes a dead one's place.
		w.Soon("two subscribers have their seats", healLimit, c.seated(5))
		more, _ := draw(w, c.are("voter", "leader"), 2) // what is left of the first five is no majority
		for _, r := range more {
			r.Kill()
		}
		w.Soon("a write without two more", electLimit+commitLimit, o.Writes(c.are("subscriber")[0]))
		load.Wait().LostOnly(append(two, more...)...)
		settles(w, "and everybody has it", healLimit, c)
		o.Kept()
	})
}

// Wall clocks that jump by hours change nothing: no leader is lost, no router and no model server is given up, and a lease
// lives as long as it is renewed and ends when it is not.
func TestClocksJump(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(4)
		c := w.Cluster(3, models[:3], w.bounded(), func(cfg *node.Config) { cfg.Discovery.LeaseMax = time.Minute })
		o := w.Operator(c)
		settles(w, "settled", formLimit, c)
		lease := func(r *Router) error {
			return r.Call("PUT", "leases/"+models[3].Name, `{"url":"`+models[3].URL()+`","ttl":"10s"}`, nil)
		}
		if err := lease(c.Routers[0]); err != nil {
			w.Fatalf("%v", err)
		}
		w.Soon("the leased server is active", 15*time.Second, func() bool { return active(c) == 4 })
		settles(w, "everywhere", commitLimit, c)
		leader := c.Leader()
		was, _ := leader.State()
		load := w.Clients(c.Routers, Load{Rate: 20, Over: time.Minute, Stream: 0.5})
		for i := range 20 {
			hours := time.Duration(w.Rand.IntN(97)-48) * time.Hour
			c.Routers[w.Rand.IntN(3)].Host.JumpClock(hours)
			if err := lease(c.Routers[i%3]); err != nil {
				w.Errorf("%v", err)
			}
			time.Sleep(3 * time.Second)
			if s, _ := leader.State(); s.Term != was.Term || s.Number != was.Number || !c.Settled() || active(c) != 4 {
				w.Fatalf("after a jump by %v: epoch %d.%d in term %d, was %d.%d in term %d\n%s", hours, s.Generation, s.Number, s.Term, was.Generation, was.Number, was.Term, c)
			}
		}
		load.Wait().LostOnly()
		w.Soon("a write", commitLimit, o.Writes(c.Routers[1]))
		w.Soon("the lease ends without a renewal", 20*time.Second, func() bool { return active(c) == 3 })
	})
}

// active is how many model servers the first router's epoch has in that state.
func active(c *Cluster) int {
	n := 0
	for _, b := range c.Routers[0].Node().Epoch().Backends() {
		if b.State == routing.Active {
			n++
		}
	}
	return n
}
