package sim

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/routing"
)

// heard is how long after a request all routers know where it was sent.
const heard = view + 100*time.Millisecond

// believed is how many of some prompts a router takes for cached on a model server.
func (w *World) believed(r *Router, id string, bodies []string) (n int) {
	for _, body := range bodies {
		var e admin.Explanation
		if err := r.Call(http.MethodPost, "explain?kind=chat", body, &e); err != nil {
			w.Fatalf("explain at %s: %v", r.Name, err)
		}
		for _, c := range e.Candidates {
			if c.ID == id && c.Have > 0 {
				n++
			}
		}
	}
	return n
}

// warmed asks for different prompts until a server answered some of them, and returns those; all routers believe it.
func (w *World) warmed(c *Cluster, id string) (bodies []string) {
	ask := w.caller()
	for i := 0; len(bodies) < 4; i++ {
		body := streamed(2, message{"user", padded(w.caption(i), 2000)})
		if a := ask.post(c.Routers[i%len(c.Routers)], body); a.backend == id {
			bodies = append(bodies, body)
		}
	}
	time.Sleep(heard)
	w.believe(c, id, bodies, len(bodies))
	return bodies
}

// believe fails the test unless every router takes so many of the prompts for cached on a model server.
func (w *World) believe(c *Cluster, id string, bodies []string, want int) {
	for _, r := range c.Routers {
		if n := w.believed(r, id, bodies); n != want {
			w.Errorf("%s takes %d prompts for cached on %s, want %d", r.Name, n, id, want)
		}
	}
}

// warmAgain asks again: nothing was cached, and what a server answers is believed of it anew.
func (w *World) warmAgain(c *Cluster, id string, bodies []string) {
	ask, again := w.caller(), []string(nil)
	for i, body := range bodies {
		a := ask.post(c.Routers[i%len(c.Routers)], body)
		if _, cached := a.usage(); cached > 0 {
			w.Errorf("%d tokens were cached on %s: %+v", cached, a.backend, a)
		}
		if a.backend == id {
			again = append(again, body)
		}
	}
	time.Sleep(heard)
	w.believe(c, id, again, len(again))
}

// A model server moves, or is another one under the same name: no router takes anything for cached there that its
// predecessor had, from the moment on at which it has the epoch that says so.
func TestNothingIsBelievedOfAnEarlierIncarnation(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(4)
		c := w.Cluster(3, models[:3])
		w.settle(c)
		bodies := w.warmed(c, "m01")
		w.put(c.Routers[0], "m01", models[3])
		w.Soon("it has moved", 3*time.Second, c.is(routing.Active, "m01"))
		w.believe(c, "m01", bodies, 0)
		w.warmAgain(c, "m01", bodies)
	})
}

// A model server is restarted where it was, which no epoch says. Its metrics do: they are read again as soon as it answers the
// probes of its observers, and by all within a minute, also where no probe has missed it.
func TestNothingIsBelievedAfterARestart(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		short := w.Seed%2 == 0
		models := w.Models(3)
		c := w.Cluster(map[bool]int{false: 3, true: 5}[short], models) // of five, two do not observe it
		w.settle(c)
		bodies := w.warmed(c, "m01")
		models[1].Kill()
		if short {
			models[1].Restart()
			time.Sleep(70 * time.Second)
			w.believe(c, "m01", bodies, 0)
		} else {
			time.Sleep(3 * time.Second)
			models[1].Restart()
			w.Soon("a restart is found out", 2*time.Second, c.all(func(r *Router) bool { return w.believed(r, "m01", bodies) == 0 }))
			w.Soon("all use it again", 10*time.Second, c.all(func(r *Router) bool { return !w.backend(r, "m01").Rumoured }))
		}
		w.warmAgain(c, "m01", bodies)
	})
}
