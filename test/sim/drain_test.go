package sim

import (
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
)

// skew is how long after the last router got an epoch a request that was picked before may still arrive: a dial and the
// request itself, at 2 ms each way.
const skew = 50 * time.Millisecond

// Every model server is replaced under load: no request fails, streams end as they should, and who drains gets nothing new.
func TestRollingReplacementOfModelServers(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		const servers = 4
		models := w.Models(2*servers, coarse)
		c := w.Cluster(3, models[:servers])
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 20, Over: 30 * time.Second, Stream: 0.5, Tokens: 10})
		for i, old := range models[:servers] {
			r := c.Routers[i%3]
			time.Sleep(time.Second)
			w.put(r, models[servers+i].Name, models[servers+i])
			w.Soon("the new one serves", 3*time.Second, c.is(routing.Active, models[servers+i].Name))
			w.drain(r, old.Name)
			w.Soon("all know that it drains", time.Second, func() bool {
				return c.is(routing.Draining, old.Name)() || c.without(old.Name)()
			})
			time.Sleep(skew)
			requests := old.Server().Stats().Requests
			w.Soon("it has drained", 15*time.Second, c.without(old.Name))
			if s := old.Server().Stats(); s.Requests > requests || s.Running+s.Waiting > 0 || s.Aborted > 0 {
				w.Errorf("%s drained with %d requests more: %+v", old.Name, s.Requests-requests, s)
			}
			old.Stop()
		}
		load.Wait().LostOnly()
		for _, m := range models[servers:] {
			if m.Server().Stats().Served == 0 {
				w.Errorf("%s got nothing", m.Name)
			}
		}
	})
}

// All routers are restarted one after another under load: whoever leaves says so first, and finishes what it has.
func TestRollingRestartOfRouters(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		c := w.Cluster(3, w.Models(3, coarse), func(cfg *node.Config) { cfg.Shutdown.DrainDelay = 500 * time.Millisecond })
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 20, Over: 25 * time.Second, Stream: 0.5, Tokens: 10})
		homes := func(r *Router) []string {
			return w.homes(r, []string{chat("one", 1), chat("two", 1), chat("three", 1), chat("four", 1), chat("five", 1)})
		}
		before := homes(c.Routers[0])
		for _, r := range c.Routers {
			time.Sleep(time.Second)
			r.Stop()
			r.Restart()
			w.Soon("settled after a restart", 15*time.Second, c.Settled)
			for i, home := range homes(r) {
				if home != before[i] {
					w.Errorf("after its restart %s has %s for the home of body %d, not %s", r.Name, home, i, before[i])
				}
			}
		}
		load.Wait().LostOnly()
	})
}
