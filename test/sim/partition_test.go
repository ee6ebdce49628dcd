package sim

import (
	"strings"
	"testing"
	"time"
)

// Both sides serve; one of them changes the fleet, and the other says that it cannot.
func TestAPartitionOfThreeAndTwo(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		c := w.Cluster(5, w.Models(4))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("the first write", commitLimit, o.Writes(c.Routers[0]))
		load := w.Clients(c.Routers, Load{Rate: 6, Over: 80 * time.Second, Stream: 0.5})
		two, three := draw(w, c.Routers, 2)
		time.Sleep(2 * time.Second)
		cut, began := w.Net.Split(HostsOf(two...), HostsOf(three...)), time.Now()
		w.Soon("the larger part changes the fleet", electLimit+commitLimit, o.Writes(three[0]))
		before, _ := two[0].State()
		time.Sleep(5 * time.Second) // at first the smaller part believes in the leader that it had
		for _, r := range two {
			refused(w, o, r)
		}
		time.Sleep(time.Minute - time.Since(began))
		for _, r := range two {
			if s, _ := r.State(); !s.Ready || s.Number != before.Number {
				w.Errorf("%s is ready %t with epoch %d.%d, want what it had: %d", r.Name, s.Ready, s.Generation, s.Number, before.Number)
			}
		}
		cut.Heal()
		settles(w, "one membership and one epoch", healLimit, c)
		load.Wait().LostOnly()
		o.Kept()
	})
}

// refused writes through a router that has no quorum.
func refused(w *World, o *Operator, r *Router) {
	if err := o.Write(r); err == nil || !strings.Contains(err.Error(), "status 503") || !strings.Contains(err.Error(), "no quorum") {
		w.Errorf("a write through %s without a quorum: %v", r.Name, err)
	}
}

// No part has a majority, for longer than it takes until lost voters are given up: nobody changes anything.
func TestAPartitionWithoutAMajority(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(5, w.Models(2))
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("the first write", commitLimit, o.Writes(c.Routers[0]))
		load := w.Clients(c.Routers, Load{Rate: 5, Over: 100 * time.Second})
		one, rest := draw(w, c.Routers, 1)
		two, others := draw(w, rest, 2)
		first, second := w.Net.Split(HostsOf(one...), HostsOf(rest...)), w.Net.Split(HostsOf(two...), HostsOf(others...))
		time.Sleep(90 * time.Second)
		for _, r := range []*Router{one[0], two[0], others[0]} {
			refused(w, o, r)
		}
		first.Heal()
		second.Heal()
		settles(w, "one membership and one epoch", healLimit, c)
		w.Soon("a write", commitLimit, o.Writes(one[0]))
		settles(w, "and everybody has it", healLimit, c)
		load.Wait().LostOnly()
		o.Kept()
	})
}
