package sim

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
)

// rumour is how long after the first refused connection all routers keep away from a server.
const rumour = 100 * time.Millisecond

// A server vanishes. What it has not answered is asked of others, and 100 ms after the first refusal no router sends it
// anything, though only one of them was refused.
func TestAVanishedServerIsAvoidedByAll(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(5)
		c := w.Cluster(3, models, w.bounded())
		w.settle(c)
		refused, others := c.Routers[0], c.Routers[1:]
		ask := w.caller()
		dead := models[0]
		var prompts []string // that belong to it
		for i := 0; len(prompts) < 5; i++ {
			if prompt := padded(w.caption(i), 200); w.homes(refused, []string{chat(prompt, 1)})[0] == dead.Name {
				prompts = append(prompts, prompt)
			}
		}
		for _, prompt := range prompts[:2] { // fewer than the failures in a row that are evidence by themselves
			ask.begin(refused, prompt, 200, func(a answer) {
				if a.status != http.StatusOK || a.decision != string(routing.DecisionRetry) {
					w.Errorf("a request without an answer was not retried: %+v", a)
				}
			})
		}
		time.Sleep(time.Second)
		dead.Kill()
		time.Sleep(50 * time.Millisecond)
		ask.begin(refused, prompts[2], 1, nil)
		w.Soon("the first refusal", time.Second, func() bool { return w.backend(refused, dead.Name).EjectedUntil != nil })
		w.Soon("all routers know", rumour, c.all(func(r *Router) bool {
			b := w.backend(r, dead.Name)
			return b.EjectedUntil != nil || b.Rumoured
		}))
		picks := func() (n uint64) {
			for _, r := range c.Routers {
				n += w.backend(r, dead.Name).Picks
			}
			return n
		}
		before := picks()
		for _, r := range others {
			for _, prompt := range prompts {
				if a := ask.ask(r, prompt, 1); a.status != http.StatusOK || a.home != dead.Name || a.backend == dead.Name || a.decision == "retry" {
					w.Errorf("%s: %+v", r.Name, a)
				}
			}
		}
		if after := picks(); after != before {
			w.Errorf("%d requests were given to the dead server", after-before)
		}
		ask.asked.Wait()
	})
}

// A server that is dead for all is taken out of the map within a minute, and let in again when it lives. Whoever leads has
// looked on for a minute before it judges.
func TestADeadServerLeavesTheMapAndReturns(t *testing.T) {
	deaths := []struct {
		name       string
		begin, end func(*Model)
		back       time.Duration
	}{
		{"killed", func(m *Model) { m.Kill() }, func(m *Model) { m.Restart() }, 15 * time.Second},
		{"silent", fault(modelserver.Fault{Kind: modelserver.Hang, Probes: true}), fault(modelserver.Fault{}), 15 * time.Second},
		// Nothing shows that it is well while it has no work: it is believed after a minute.
		{"wedged", fault(modelserver.Fault{Kind: modelserver.Wedged}), fault(modelserver.Fault{}), 75 * time.Second},
	}
	Run(t, Options{Seeds: len(deaths)}, func(w *World) {
		death := deaths[w.Seed%uint64(len(deaths))]
		models := w.Models(5, coarse)
		c := w.Cluster(3, models, func(cfg *node.Config) {
			cfg.Proxy.Timeouts.FirstByte = 20 * time.Second
			cfg.Health.Stall = 15 * time.Second // of an engine with work; the rest is 30 s of agreement and the probes' steps
		})
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 4, Over: 150*time.Second + death.back, Tokens: 2, Late: 50 * time.Second})
		time.Sleep(65 * time.Second)
		death.begin(models[2])
		w.Soon(death.name+": out of the map", time.Minute, c.is(routing.Joining, "m02"))
		time.Sleep(5 * time.Second)
		death.end(models[2])
		w.Soon(death.name+": in the map again", death.back, c.is(routing.Active, "m02"))
		served := models[2].Server().Stats().Served
		w.Soon(death.name+": serves again", 15*time.Second, func() bool { return models[2].Server().Stats().Served > served })
		load.Wait().LostOnly()
	})
}

// fault makes a model server misbehave.
func fault(f modelserver.Fault) func(*Model) {
	return func(m *Model) {
		if err := m.Server().SetFault(f); err != nil {
			m.w.Errorf("%s: %v", m.Name, err)
		}
	}
}

// A server that only one router cannot reach stays in the map, and the others go on using it.
func TestAServerDeadForOneRouterStays(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(5, coarse)
		c := w.Cluster(3, models, func(cfg *node.Config) { cfg.Proxy.Timeouts.FirstByte = 5 * time.Second })
		w.settle(c)
		load := w.Clients(c.Routers, Load{Rate: 5, Over: 165 * time.Second, Tokens: 2})
		w.Always("nobody leaves the map", func() error { return c.stays("m02") })
		time.Sleep(65 * time.Second)
		cut := w.Net.OneWay(HostsOf(c.Routers[1]), w.group([]string{"m02"}))
		time.Sleep(75 * time.Second)
		before := models[2].Server().Stats().Served
		time.Sleep(20 * time.Second)
		// Two routers have two thirds of the traffic for a fifth of the keys: some 13 requests in 20 s; a rumour takes half.
		if n := models[2].Server().Stats().Served - before; n < 4 {
			w.Errorf("%d requests in 20 s from those that reach it", n)
		}
		cut.Heal()
		load.Wait().LostOnly()
	})
}
