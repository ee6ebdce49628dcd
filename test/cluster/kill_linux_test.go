package cluster

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// place is where the map puts a request.
type place struct{ home, epoch string }

// places asks routers where they put each of n bodies; the test fails unless all say the same.
func (g *ring) places(n int, among ...*router) []place {
	g.t.Helper()
	out := make([]place, n)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < n; i += 4 {
				body := ask(fmt.Sprint("system prompt ", i), "question")
				for j, r := range among {
					resp, text, err := post(g.t.Context(), g.client, r.url(), body)
					if err != nil || resp.StatusCode != http.StatusOK {
						g.t.Errorf("%s: %v: %s", r.cfg.Router.Name, err, text)
						return
					}
					got := place{resp.Header.Get("X-Warmring-Home"), resp.Header.Get("X-Warmring-Epoch")}
					if j > 0 && got != out[i] || got.home == "" {
						g.t.Errorf("%s puts body %d at %v, %s at %v", r.cfg.Router.Name, i, got, among[0].cfg.Router.Name, out[i])
						return
					}
					out[i] = got
				}
			}
		})
	}
	wg.Wait()
	return out
}

// The same body has the same home and epoch on every router. Any of them may be killed, also the leader: the others fail no
// request, keep the homes, and agree on a new epoch.
func TestKillAnyRouter(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).start()
	before := g.places(1000, g.routers...)
	leader := g.leader()
	for _, victim := range []*router{g.without(leader)[0], leader} {
		others := g.without(victim)
		l := g.load()
		l.flows(t, 20, g.routers...)
		victim.kill(t)
		killed := time.Now()
		epoch := g.commit(others[0])
		t.Logf("kill -9 of %s (leader: %v) to the next committed epoch %s: %v", victim.cfg.Router.Name, victim == leader, epoch, time.Since(killed).Round(time.Millisecond))
		l.flows(t, 50, others...)
		l.faultless(t, others...)
		g.settle(patience, others...)
		for i, p := range g.places(200, others...) {
			if p.home != before[i].home && before[i].home != "gpu-0" && p.home != "gpu-0" { // whose weight was changed
				t.Errorf("body %d moved from %s to %s", i, before[i].home, p.home)
			}
		}
		victim.start(t)
		g.settle(patience)
		g.voters()
	}
}

// Row 12 of the scenarios: the leader stands still. The others elect another one, serve and agree; when it goes on, it follows.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).start()
	leader := g.leader()
	others := g.without(leader)
	l := g.load()
	l.flows(t, 20, g.routers...)
	leader.pause(t)
	paused := time.Now()
	epoch := g.commit(others[1])
	t.Logf("SIGSTOP of the leader to the next committed epoch %s: %v", epoch, time.Since(paused).Round(time.Millisecond))
	within(t, patience, "8 s of pause", func() bool { return time.Since(paused) > 8*time.Second }) // longer than any timeout between routers
	g.commit(others[0])
	leader.resume(t)
	resumed := time.Now()
	g.settle(patience)
	t.Logf("SIGCONT to one membership and one epoch: %v", time.Since(resumed).Round(time.Millisecond))
	for _, r := range g.routers {
		g.agreed(r)
	}
	l.flows(t, 20, g.routers...)
	l.faultless(t, g.routers...)
}
