package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

// One server more takes its share of the keys from the others and nobody else gets any; when it goes, its keys go back to
// where they were. All routers say the same. Which keys are whose depends on the cluster's salt alone, which the seed fixes.
func TestOneServerMoreMovesItsShare(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		const servers, bodies = 9, 3000
		models := w.Models(servers + 1)
		c := w.Cluster(3, models[:servers], w.bounded()) // no hot table may move keys
		w.settle(c)
		var all []string
		for i := range bodies {
			all = append(all, chat(fmt.Sprintf("body %d", i), 1))
		}
		before := w.sameHomes(c, all)

		w.put(c.Routers[0], "m09", models[servers])
		w.Soon("one server more", 3*time.Second, c.is(routing.Active, "m09"))
		with := w.sameHomes(c, all)
		moved := 0
		for i := range all {
			if with[i] == before[i] {
				continue
			}
			if moved++; with[i] != "m09" {
				w.Fatalf("body %d moved from %s to %s, which was there before", i, before[i], with[i])
			}
		}
		// With 3,000 keys the share of one in ten has a standard deviation of 0.55 points.
		if share, want := float64(moved)/bodies, 1.0/(servers+1); share < want-0.02 || share > want+0.02 {
			w.Errorf("%.3f of the keys moved, want %.3f", share, want)
		}
		w.Logf("%d of %d keys moved to the tenth server", moved, bodies)

		w.call(c.Routers[1], http.MethodDelete, "backends/m09", "")
		w.Soon("one server less", 3*time.Second, c.without("m09"))
		if after := w.sameHomes(c, all); !slices.Equal(after, before) {
			w.Errorf("the keys are not where they were before")
		}
	})
}

// sameHomes are the homes of bodies, which all routers must agree on; those of some are compared with what answers say.
func (w *World) sameHomes(c *Cluster, bodies []string) []string {
	homes := w.homes(c.Routers[0], bodies)
	ask := w.caller()
	for _, r := range c.Routers {
		if !slices.Equal(w.homes(r, bodies), homes) {
			w.Fatalf("%s has other homes than %s", r.Name, c.Routers[0].Name)
		}
		for i := range 10 {
			if a := ask.post(r, bodies[i]); a.status != http.StatusOK || a.home != homes[i] {
				w.Errorf("%s says %+v for a body of %s", r.Name, a, homes[i])
			}
		}
	}
	return homes
}

// Servers come and go under ever new names; nothing remains in the metrics of those that left.
func TestNothingRemainsOfWhoLeft(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		models := w.Models(3, coarse)
		c := w.Cluster(3, models[:2])
		w.settle(c)
		shown := c.all(func(r *Router) bool { return strings.Contains(w.scrape(r), `backend="server-`) })
		for i := range 10 {
			name := fmt.Sprintf("server-%d", i)
			w.put(c.Routers[0], name, models[2])
			w.Soon("one more", 3*time.Second, c.is(routing.Active, name))
			w.Clients(c.Routers, Load{Rate: 20, Over: time.Second, Tokens: 2}).Wait().LostOnly()
			if !shown() {
				w.Errorf("the metrics do not show %s", name)
			}
			w.drain(c.Routers[1], name)
			w.Soon("it has drained", 10*time.Second, c.without(name))
		}
		for _, r := range c.Routers {
			if strings.Contains(w.scrape(r), `backend="server-`) {
				w.Errorf("%s still shows a server that left", r.Name)
			}
		}
	})
}

// Scale to zero and back: an error that says so while there is nobody, and answers as soon as somebody is ready.
func TestScaleToZeroAndBack(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(3)
		c := w.Cluster(3, models)
		w.settle(c)
		for i, m := range models {
			w.drain(c.Routers[i], m.Name)
		}
		w.Soon("all are gone", 5*time.Second, c.without("m00", "m01", "m02"))
		ask := w.caller()
		for _, r := range c.Routers {
			if a := ask.ask(r, "anybody?", 1); a.status != http.StatusServiceUnavailable || a.took > time.Second {
				w.Errorf("without servers %s answers %+v", r.Name, a)
			}
			if !r.Ready() {
				w.Errorf("%s is not ready: %v", r.Name, r.Node().Ready())
			}
		}
		w.put(c.Routers[2], "m01", models[1])
		w.Soon("service is back", time.Second, c.all(func(r *Router) bool {
			return ask.ask(r, "anybody?", 1).status == http.StatusOK
		}))
	})
}
