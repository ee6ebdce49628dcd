package sim

import (
	"slices"
	"testing"
	"time"
)

// A beginning that much traffic shares becomes hot, on all routers by one epoch, whoever leads; when nobody asks for it any
// more it is forgotten. The same epoch means the same home all the while.
func TestAHotPrefixIsAgreedOn(t *testing.T) {
	Run(t, Options{Seeds: 3, Most: 8}, func(w *World) {
		c := w.Cluster(3, w.Models(5))
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 40, Over: 40 * time.Second, Prompts: 3, Size: 3000})
		w.Soon("a hot table", 15*time.Second, func() bool { return hot(c.Routers) == len(c.Routers) })
		var bodies []string
		for i := range 50 {
			bodies = append(bodies, chat(w.caption(i), 1))
		}
		w.agreeOnHomes(c.Routers, bodies)
		leader := c.Leader()
		leader.Kill()
		others := slices.DeleteFunc(slices.Clone(c.Routers), func(r *Router) bool { return r == leader })
		w.Soon("another leader", 15*time.Second, func() bool { l := c.Leader(); return l != nil && l != leader })
		w.agreeOnHomes(others, bodies)
		load.Wait()
		w.Soon("the table is empty again", 10*time.Minute, func() bool { return hot(others) == 0 })
	})
}

// hot is how many routers have a hot table that is not empty.
func hot(routers []*Router) (n int) {
	for _, r := range routers {
		if table := r.Node().Epoch().Hot(); table != nil && len(table.Runs) > 0 {
			n++
		}
	}
	return n
}

// agreeOnHomes compares the homes of bodies on routers that have the same epoch, for two seconds.
func (w *World) agreeOnHomes(routers []*Router, bodies []string) {
	compared := 0
	for range 20 {
		seen := map[string][]string{}
		for _, r := range routers {
			epoch, homes := r.Node().Epoch(), w.homes(r, bodies)
			if r.Node().Epoch() != epoch {
				continue
			}
			if other := seen[epoch.ID()]; other != nil && !slices.Equal(other, homes) {
				w.Fatalf("%s has other homes in epoch %s", r.Name, epoch.ID())
			} else if other != nil {
				compared++
			}
			seen[epoch.ID()] = homes
		}
		time.Sleep(100 * time.Millisecond)
	}
	if compared == 0 {
		w.Fatalf("no two routers had one epoch")
	}
}
