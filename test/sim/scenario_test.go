package sim

import (
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
)

func TestRequestsFlowWhileAModelServerDies(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(3)
		c := w.Cluster(1, models)
		w.Soon("ready", 10*time.Second, c.Settled)
		load := w.Clients(c.Routers, Load{Rate: 50, Over: 20 * time.Second, Stream: 0.5})
		time.Sleep(5 * time.Second)
		models[1].Kill()
		w.Soon("the others have it all", 5*time.Second, func() bool { return models[0].Server().Stats().Running+models[2].Server().Stats().Running > 0 })
		if total := load.Wait().Total(); total.Refused+total.Late > 0 || total.Cut > 10 {
			w.Errorf("only what the server had in hand may be lost: %s", total)
		}
	})
}

// Single routers in front of model servers, which die and come back; the clients' answers are short, so that next to
// nothing is in hand when a server dies.
func TestRandomFaultsOfModelServers(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		models := w.Models(4, func(c *modelserver.Config) { c.Speed = 10 })
		var routers []*Router
		for range 2 {
			routers = append(routers, w.Router(models))
		}
		ready := func() bool { return routers[0].Ready() && routers[1].Ready() }
		w.Soon("ready", 10*time.Second, ready)
		w.Always("routers stay ready", func() error { return routers[0].Node().Ready() })
		plan := RandomPlan(w.Rand, []string{"m00", "m01"}, time.Minute, Mix{Actions: []Action{Kill, Pause, Move}})
		wait := w.Do(plan)
		load := w.Clients(routers, Load{Rate: 10, Over: time.Minute, Stream: 0.2, Late: 30 * time.Second})
		if total := load.Wait().Total(); total.OK < 570 {
			w.Errorf("of 600: %s", total)
		}
		wait()
	})
}

// A killed router's requests are lost, nobody else's.
func TestARouterDiesWithItsRequests(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		models := w.Models(2)
		routers := []*Router{w.Router(models), w.Router(models), w.Router(models)}
		w.Soon("ready", 10*time.Second, func() bool { return routers[0].Ready() && routers[1].Ready() && routers[2].Ready() })
		load := w.Clients(routers, Load{Rate: 30, Over: 6 * time.Second, Stream: 1, Tokens: 100})
		time.Sleep(3 * time.Second)
		routers[1].Kill()
		load.Wait().LostOnly(routers[1])
		if lost := load.At(routers[1]); lost.Cut < 5 {
			w.Errorf("the killed router had requests in hand: %s", lost)
		}
		routers[1].Restart()
		w.Soon("ready again", 10*time.Second, routers[1].Ready)
		w.Clients(routers, Load{Over: 2 * time.Second}).Wait().LostOnly()
		routers[2].Move()
		w.Clients(routers, Load{Over: 2 * time.Second}).Wait().LostOnly()
	})
}

func TestAPlanIsCarriedOut(t *testing.T) {
	Run(t, Options{Seeds: 1}, func(w *World) {
		models := w.Models(1)
		r := w.Router(models)
		w.Soon("ready", 10*time.Second, r.Ready)
		plan, err := ParsePlan(`1s split n00|m00 for 4s
			10s slow clients|n00 delay 2s for 2s
			20s kill m00 for 1s; 25500ms blackhole clients|n00 for 8s; 50s clock n00 delay -3h`)
		if err != nil {
			w.Fatalf("%v", err)
		}
		began := time.Now() // of the plan
		wait := w.Do(plan)
		until := func(at time.Duration) { time.Sleep(at - time.Since(began)) }
		slowest := func(at time.Duration) time.Duration {
			until(at)
			w.Clients([]*Router{r}, Load{Rate: 10, Over: 100 * time.Millisecond}).Wait().LostOnly()
			return time.Since(began) - at
		}
		for _, tt := range []struct{ at, from, to time.Duration }{
			{500 * time.Millisecond, 0, 400 * time.Millisecond},
			{2 * time.Second, 3 * time.Second, 4 * time.Second},
			{10500 * time.Millisecond, 2 * time.Second, 5 * time.Second},
			{25 * time.Second, 0, 400 * time.Millisecond},
		} {
			if took := slowest(tt.at); took < tt.from || took > tt.to {
				w.Errorf("a request at %v took %v, want %v to %v", tt.at, took, tt.from, tt.to)
			}
		}
		until(26 * time.Second)
		if total := w.Clients([]*Router{r}, Load{Rate: 10, Over: 100 * time.Millisecond, Late: 5 * time.Second}).Wait().Total(); total.Late != 1 {
			w.Errorf("in a black hole: %s", total)
		}
		wait()
		until(51 * time.Second)
		if d := w.Host("m00").Now().Sub(r.Host.Now()); d != 3*time.Hour {
			w.Errorf("the clocks are %v apart", d)
		}
	})
}
