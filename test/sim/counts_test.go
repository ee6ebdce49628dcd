package sim

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
)

// A router dies with 500 requests in flight: a reset tells its peers at once, and where nothing can, silence does within
// 1.5 s.
func TestCountsOfADeadRouterGo(t *testing.T) {
	Run(t, Options{Seeds: 4}, func(w *World) {
		c := w.Cluster(3, w.Models(4, coarse))
		w.settle(c)
		const requests = 500
		w.Clients(c.Routers[:1], Load{Rate: 2 * requests, Over: 500 * time.Millisecond, Tokens: 50})
		others := c.Others(c.Routers[0])
		heard := func(want int) func() bool {
			return func() bool {
				_, a := w.counts(others[0])
				_, b := w.counts(others[1])
				return a == want && b == want
			}
		}
		w.Soon("peers know of all requests", 2*time.Second, heard(requests))
		how := "after a reset"
		if w.Seed%2 == 0 {
			how = "in silence"
			w.Net.Split(HostsOf(c.Routers[0]), HostsOf(others...))
		}
		c.Routers[0].Kill()
		w.Soon("peers have forgotten them "+how, 2*time.Second, heard(0))
	})
}

// Nothing but the end of a request changes its count: not a reload, nor a scrape, a probe, a change of the fleet or of the
// leader.
func TestNothingResetsACount(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(4)
		configs := map[string]node.Config{}
		c := w.Cluster(3, models[:3], func(cfg *node.Config) { configs[cfg.Router.Name] = *cfg })
		w.settle(c)
		const each = 10
		ask := w.caller()
		for i := range each * len(c.Routers) {
			ask.begin(c.Routers[i%3], fmt.Sprintf("request %d", i), 4000, nil)
		}
		counted := c.all(func(r *Router) bool {
			own, peers := w.counts(r)
			return own == each && peers == 2*each
		})
		w.Soon("all is counted everywhere", 2*time.Second, counted)
		check := func(after string) {
			if !counted() {
				w.Fatalf("after %s the counts are others: %+v", after, w.backends(c.Routers[0]))
			}
		}
		for _, r := range c.Routers {
			w.scrape(r)
		}
		check("a scrape")
		time.Sleep(3 * time.Second)
		check("some probes")
		cfg := configs[c.Routers[1].Name]
		cfg.Backends = slices.Clone(cfg.Backends)
		cfg.Backends[0].Weight = 2
		if err := c.Routers[1].Node().Reload(w.Context(), cfg); err != nil {
			w.Fatalf("reload: %v", err)
		}
		check("a reload")
		w.put(c.Routers[2], models[3].Name, models[3])
		w.Soon("another model server", 3*time.Second, c.is(routing.Active, models[3].Name))
		check("another model server")
		w.drain(c.Routers[0], models[2].Name)
		w.Soon("one drains", 3*time.Second, c.is(routing.Draining, models[2].Name))
		check("the drain of a model server")
	})
}

// The last slot is taken on all three routers at once: there is one request too many for each router but one, and once
// the routers have heard of each other nobody lets another one in.
func TestTheLastSlotIsTakenTwice(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		const slots = 4
		models := w.Models(1)
		c := w.Cluster(3, models, func(cfg *node.Config) { cfg.Backends[0].MaxInflight = slots })
		w.settle(c)
		busy := func() int { s := models[0].Server().Stats(); return s.Running + s.Waiting }
		w.Always("overload", func() error {
			if n := busy(); n > slots+len(c.Routers)-1 {
				return fmt.Errorf("%d requests on %d slots", n, slots)
			}
			return nil
		})
		ask := w.caller()
		for i := range slots - 1 {
			ask.begin(c.Routers[0], fmt.Sprintf("long %d", i), 3000, nil)
		}
		w.Soon("all routers know of them", time.Second, c.all(func(r *Router) bool {
			own, peers := w.counts(r)
			return own+peers == slots-1
		}))
		slow := w.Net.Slow(HostsOf(c.Routers...), HostsOf(c.Routers...), 100*time.Millisecond, 0) // or one may be told in time
		for _, r := range c.Routers {
			ask.begin(r, "at once at "+r.Name, 100, nil)
		}
		time.Sleep(100 * time.Millisecond)
		slow.Heal()
		time.Sleep(view)
		most := busy()
		for i := range 6 {
			ask.begin(c.Routers[i%3], fmt.Sprintf("later %d", i), 100, nil)
		}
		time.Sleep(view)
		if n := busy(); n > most || most <= slots {
			w.Errorf("%d requests after %d, on %d slots", n, most, slots)
		}
		w.Soon("the overload is over", 10*time.Second, func() bool { return busy() <= slots })
	})
}

// view is the age that a router's view of its peers has at most: the longest gap between two frames, and their way.
const view = 200*time.Millisecond + 10*time.Millisecond

// A backend gets another address: that is another incarnation. Its predecessor's connections and counts do not become
// its own.
func TestAnotherAddressIsAnotherIncarnation(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(4)
		c := w.Cluster(3, models[:3])
		w.settle(c)
		ask := w.caller()
		for i := range 60 {
			ask.begin(c.Routers[i%3], fmt.Sprintf("request %d", i), 1000, func(a answer) {
				if a.status != http.StatusOK {
					w.Errorf("a request was lost when a backend moved: %+v", a)
				}
			})
		}
		w.Soon("all is counted everywhere", 2*time.Second, c.all(func(r *Router) bool {
			own, peers := w.counts(r)
			return own+peers == 60
		}))
		was := w.backend(c.Routers[0], "m00")
		w.put(c.Routers[1], "m00", models[3])
		w.Soon("it has moved", 3*time.Second, c.is(routing.Active, "m00"))
		before := models[0].Server().Stats().Requests
		for _, r := range c.Routers {
			if is := w.backend(r, "m00"); is.Incarnation <= was.Incarnation || is.InFlight+is.PeerInFlight > 0 {
				w.Errorf("%s takes the new one for the old one: %+v after %+v", r.Name, is, was)
			}
		}
		w.Clients(c.Routers, Load{Rate: 50, Over: 2 * time.Second}).Wait().LostOnly()
		if models[0].Server().Stats().Requests != before || models[3].Server().Stats().Requests == 0 {
			w.Errorf("%d requests at the old address, %d at the new one", models[0].Server().Stats().Requests-before, models[3].Server().Stats().Requests)
		}
		ask.asked.Wait()
	})
}
