package sim

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/node/discovery"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
)

// byName makes routers find their model servers behind a name instead of in their file, looking every second.
func byName(cfg *node.Config) {
	cfg.Backends = nil
	cfg.Discovery.DNS = []discovery.DNSConfig{{Name: fleetName, Port: 8000, Scheme: "http", Weight: 1, Interval: lookup}}
}

const (
	fleetName = "models.fleet"
	lookup    = time.Second
)

// list makes the name stand for these model servers, and returns the ids that they get.
func (w *World) list(models ...*Model) (ids []string) {
	var addresses []netip.Addr
	for _, m := range models {
		addresses = append(addresses, m.Host.IP())
		ids = append(ids, m.Host.IP().String()+modelPort)
	}
	w.Net.SetName(fleetName, addresses...)
	return ids
}

// DNS that fails, or that knows nothing any more, does not empty the fleet: the last list stays, which is reported. Once it
// answers again, what it no longer lists drains.
func TestDiscoveryFails(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(3)
		ids := w.list(models...)
		c := w.Cluster(3, nil, byName)
		w.settle(c)
		w.Soon("found and ready", 5*time.Second, c.is(routing.Active, ids...))
		load := w.Clients(c.Routers, Load{Rate: 5, Over: 50 * time.Second})
		w.list()
		time.Sleep(20 * time.Second)
		if !c.is(routing.Active, ids...)() {
			w.Errorf("an empty answer changed the fleet")
		}
		for _, r := range c.Routers {
			if !strings.Contains(r.log.tail(), "discovery failed, the last list stays") {
				w.Errorf("%s does not report it", r.Name)
			}
		}
		if !strings.Contains(w.scrape(c.Leader()), "warmring_fleet_changes_held 1") {
			w.Errorf("the leader's metrics do not show that a source is broken")
		}
		w.Net.SetResolver(100*time.Millisecond, errors.New("server failure"))
		w.list(models[1:]...) // a deletion that nobody hears of now
		time.Sleep(20 * time.Second)
		if !c.is(routing.Active, ids...)() {
			w.Errorf("a failure of DNS changed the fleet")
		}
		w.Net.SetResolver(0, nil)
		w.Soon("the missed deletion is made good", 2*lookup+time.Second, func() bool {
			return c.is(routing.Draining, ids[0])() || c.without(ids[0])()
		})
		w.Soon("it has drained", 10*time.Second, c.without(ids[0]))
		load.Wait().LostOnly()
	})
}

// A server that is found before it is ready, or before it has loaded its model, gets nothing; once it is ready it does
// within a second.
func TestFoundBeforeItIsReady(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(1)
		late := w.Models(1, func(c *modelserver.Config) {
			c.Fault = modelserver.Fault{Kind: modelserver.Status, Status: 503, Probes: true}
		})[0]
		loaded := "something else"
		other := w.Models(1, func(c *modelserver.Config) { c.Model = loaded })[0]
		ids := w.list(models[0], late, other)
		c := w.Cluster(3, nil, byName)
		w.settle(c)
		w.Soon("the first one serves", 5*time.Second, c.is(routing.Active, ids[0]))
		load := w.Clients(c.Routers, Load{Rate: 10, Over: 40 * time.Second})
		time.Sleep(15 * time.Second)
		for _, m := range []*Model{late, other} {
			if s := m.Server().Stats(); s.Requests > 0 {
				w.Errorf("%s got %d requests before it was ready", m.Name, s.Requests)
			}
		}
		fault(modelserver.Fault{})(late)
		w.Soon("ready: in the map", time.Second, c.is(routing.Active, ids[1]))
		w.Soon("ready: served", 5*time.Second, func() bool { return late.Server().Stats().Served > 0 })
		loaded = model
		other.Stop()
		other.Restart()
		w.Soon("model loaded: in the map", time.Second+500*time.Millisecond, c.is(routing.Active, ids[2])) // one probe may find it stopped
		w.Soon("model loaded: served", 5*time.Second, func() bool { return other.Server().Stats().Served > 0 })
		load.Wait().LostOnly()
	})
}

// A server that comes and goes all the time, in DNS or by its health, costs a handful of epochs a minute.
func TestAFlappingServerIsDamped(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		models := w.Models(3)
		w.list(models...)
		c := w.Cluster(3, nil, byName)
		w.settle(c)
		time.Sleep(5 * time.Second)
		const minutes = 3
		first := c.Routers[0].Node().Epoch().Number()
		most, was := uint64(0), first
		for range minutes {
			for range 10 {
				w.list(models[:2]...)
				time.Sleep(3 * time.Second)
				w.list(models...)
				time.Sleep(3 * time.Second)
			}
			is := c.Routers[0].Node().Epoch().Number()
			most, was = max(most, is-was), is
		}
		w.Logf("%d epochs in %d minutes, at most %d in one", was-first, minutes, most)
		// A round is at most four epochs: it joins, is ready, drains, is gone. The first two wait for nothing, the next ones
		// 20 s and longer, until the penalty that a round adds is as much as fades: at a wait of 35 s.
		if most > 12 || was-first > 7*minutes {
			w.Errorf("%d epochs in %d minutes, at most %d in one", was-first, minutes, most)
		}
	})
}

// A server registers itself through any router, stays as long as it renews, whoever leads, and drains when it does not.
func TestLease(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(2)
		c := w.Cluster(5, models[:1])
		w.settle(c)
		m := models[1]
		const ttl = 6
		running := func(i int) *Router {
			for ; ; i++ {
				if r := c.Routers[i%5]; r.Running() {
					return r
				}
			}
		}
		w.renew(running(0), m, ttl)
		w.Soon("registered and ready", 2*time.Second, c.is(routing.Active, m.Name))
		load := w.Clients(c.Routers, Load{Rate: 5, Over: 15 * time.Second})
		w.Always("the lease lasts", func() error { return c.stays(m.Name) })
		for i := range 10 {
			if i == 4 {
				leader := c.Leader()
				leader.Kill()
				w.Soon("another leader", 5*time.Second, c.NewLeader(leader))
			}
			w.renew(running(i), m, ttl)
			time.Sleep(ttl * time.Second / 3)
		}
		if m.Server().Stats().Served == 0 {
			w.Errorf("it got nothing")
		}
		load.Wait()
	})
}

// A server that ends its lease drains at once, whatever time was left; when it registers itself again it is back. One that
// leaves before the fleet has it does not come.
func TestALeaseEnds(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(3)
		c := w.Cluster(3, models[:1])
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 20, Over: 10 * time.Second, Stream: 0.5, Tokens: 50})
		leave := func() { w.call(c.Routers[2], http.MethodDelete, "leases/m01", "") }
		w.renew(c.Routers[0], models[1], 300)
		w.Soon("registered and ready", 2*time.Second, c.is(routing.Active, "m01"))
		leave()
		w.renew(c.Routers[1], models[1], 300) // while it drains
		w.Soon("back again", 5*time.Second, c.is(routing.Active, "m01"))
		leave()
		w.Soon("it has drained", 10*time.Second, c.without("m01"))
		w.renew(c.Routers[0], models[1], 300)
		w.Soon("back once more, after the waits of one that comes and goes", time.Minute, c.is(routing.Active, "m01"))
		w.renew(c.Routers[0], models[2], 300)
		_ = c.Routers[0].Call(http.MethodDelete, "leases/m02", "", nil) // may say that there is none yet
		time.Sleep(time.Second)                                         // the leader may have written already that it comes
		w.Soon("it does not stay", 10*time.Second, c.without("m02"))
		load.Wait().LostOnly()
	})
}

// A lease that is not renewed runs out, and the server drains.
func TestALeaseRunsOut(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(2)
		c := w.Cluster(3, models[:1])
		w.settle(c)
		w.renew(c.Routers[1], models[1], 5)
		w.Soon("registered and ready", 2*time.Second, c.is(routing.Active, "m01"))
		load := w.Clients(c.Routers, Load{Rate: 20, Over: 10 * time.Second, Stream: 0.5, Tokens: 50})
		// The leader looks every 5 s at least.
		w.Soon("the lease has run out", 10*time.Second, func() bool { return c.is(routing.Draining, "m01")() || c.without("m01")() })
		w.Soon("it has drained", 10*time.Second, c.without("m01"))
		load.Wait().LostOnly()
	})
}
