package sim

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
)

// onDisk gives each router a directory of its own, which it keeps when it starts again.
func onDisk(dir string) func(*node.Config) {
	return func(cfg *node.Config) { cfg.Consensus.DataDir = filepath.Join(dir, cfg.Router.Name) }
}

// All routers get other addresses at once. With their logs they are the same cluster again; in memory nothing is left, and
// they found another one.
func TestAllAddressesChangeAtOnce(t *testing.T) {
	for _, disk := range []bool{true, false} {
		t.Run(map[bool]string{true: "with logs", false: "in memory"}[disk], func(t *testing.T) {
			Run(t, Options{Seeds: 2}, func(w *World) {
				tweak := func(*node.Config) {}
				if disk {
					tweak = onDisk(w.t.TempDir())
				}
				c := w.Cluster(5, w.Models(2), tweak)
				o := w.Operator(c)
				w.Soon("settled", formLimit, c.Settled)
				w.Soon("a write", commitLimit, o.Writes(c.Routers[0]))
				var moving sync.WaitGroup
				for _, r := range c.Routers {
					moving.Go(r.Move)
				}
				moving.Wait()
				settles(w, "settled at other addresses", healLimit, c)
				w.Clients(c.Routers, Load{Over: 2 * time.Second}).Wait().LostOnly()
				if disk {
					o.Kept()
				}
				w.Soon("another write", commitLimit, o.Writes(c.Routers[1]))
			})
		})
	}
}

// One router after the other is replaced by one at another address, as pods are, each when the one before has a seat. Nothing
// is on disk and nothing is lost.
func TestAddressesChangeOneAfterTheOther(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(5, w.Models(4), lingering)
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("a write", commitLimit, o.Writes(c.Routers[0]))
		load := w.Clients(c.Routers, Load{Rate: 8, Over: 40 * time.Second, Stream: 0.5})
		for _, r := range c.Routers {
			replace(r)
			settles(w, "settled after one was replaced", healLimit, c)
			w.Soon("it has a seat", healLimit, c.seated(5))
		}
		load.Wait().LostOnly()
		w.Soon("another write", commitLimit, o.Writes(c.Routers[1]))
		settles(w, "and everybody has it", healLimit, c)
		o.Kept()
	})
}

// lingering leaves load balancers half a second to see that a router is not ready. Without it a request that is on its way
// to a router when that stops is refused.
func lingering(cfg *node.Config) { cfg.Shutdown.DrainDelay = 500 * time.Millisecond }

// replace stops a router in order and starts one at another address.
func replace(r *Router) {
	r.Stop()
	r.Host.Move()
	r.Restart()
}

// The same as fast as routers become ready. Nobody fails a request, and no epoch is lost.
func TestAddressesChangeQuickly(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(5, w.Models(4), lingering)
		o := w.Operator(c)
		neverTwo(w, c)
		settles(w, "settled", formLimit, c)
		w.Soon("a write", commitLimit, o.Writes(c.Routers[0]))
		load := w.Clients(c.Routers, Load{Rate: 8, Over: 40 * time.Second, Stream: 0.5})
		for _, r := range c.Routers {
			replace(r)
			w.Soon("the next is ready", formLimit, r.Ready)
		}
		settles(w, "settled after all were replaced", healLimit, c)
		o.Kept()
		w.Soon("another write", commitLimit, o.Writes(c.Routers[1]))
		load.Wait().LostOnly()
	})
}
