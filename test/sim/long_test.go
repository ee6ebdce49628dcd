package sim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
)

// Servers, routers and prefixes come and go, and nothing grows: not the memory, nor the goroutines, nor the number of metric
// series. It takes 20 virtual minutes, or SIM_HOURS: 24 of them are some 20 minutes of a processor.
func TestNothingGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes of virtual time")
	}
	rounds, round := 4, 5*time.Minute
	if text := os.Getenv("SIM_HOURS"); text != "" {
		hours, err := strconv.Atoi(text)
		if err != nil || hours < 1 {
			t.Fatalf("SIM_HOURS=%q", text)
		}
		rounds, round = 4*hours, 15*time.Minute
	}
	// Of two seeds at once each would see the other one's memory.
	Run(t, Options{Seeds: 1, Most: 1, Limit: time.Duration(rounds+4) * round}, func(w *World) {
		models := w.Models(5, coarse)
		c := w.Cluster(3, models[:4], func(cfg *node.Config) { cfg.Shutdown.DrainDelay = 500 * time.Millisecond })
		w.settle(c)
		var sizes []size
		for i := range rounds {
			load := w.Clients(c.Routers, Load{Rate: 1, Over: round - 2*time.Minute, Tokens: 5, Prompts: 1 << 30, Stream: 0.3})
			killed := w.churn(c, models, i)
			load.Wait().LostOnly(killed)
			time.Sleep(2 * time.Minute) // connections that idle for a minute are gone
			sizes = append(sizes, w.size(c))
			w.Logf("%+v", sizes[i])
		}
		// What there is after one round of everything is what is needed.
		first, last := sizes[0], sizes[len(sizes)-1]
		if last.goroutines > first.goroutines+20 || last.series > first.series+first.series/10 || last.heap > first.heap+first.heap/4+8<<20 {
			w.Errorf("%+v became %+v", first, last)
		}
	})
}

// churn replaces one model server by another under a new name, restarts a router and kills the next one, which it returns.
func (w *World) churn(c *Cluster, models []*Model, round int) (killed *Router) {
	r := c.Routers[round%3]
	out, in, name := models[round%5], models[(round+4)%5], fmt.Sprintf("server-%d", round)
	w.put(r, name, in)
	w.Soon("another server", 15*time.Second, c.is(routing.Active, name))
	for _, b := range r.Node().Epoch().Backends() {
		if b.URL == out.URL() {
			w.drain(r, b.ID)
			w.Soon("its predecessor has drained", 30*time.Second, c.without(b.ID))
		}
	}
	r.Stop()
	r.Restart()
	w.Soon("settled after a restart", 15*time.Second, c.Settled)
	out.Stop()
	out.Restart()
	time.Sleep(30 * time.Second) // the voter that left has been replaced
	killed = c.Routers[(round+1)%3]
	killed.Kill()
	time.Sleep(5 * time.Second)
	killed.Restart()
	w.Soon("settled after a crash", 15*time.Second, c.Settled)
	return killed
}

// size is how much of everything there is.
type size struct {
	goroutines int    // of this bubble
	series     int    // of metrics, over all routers
	heap       uint64 // bytes, of the whole process
}

func (w *World) size(c *Cluster) size {
	s := size{goroutines: strings.Count(allStacks(), *w.pulse.bubble.Load())}
	for _, r := range c.Routers {
		for line := range strings.Lines(w.scrape(r)) {
			if !strings.HasPrefix(line, "#") {
				s.series++
			}
		}
	}
	runtime.GC()
	runtime.GC() // what the first one has queued for finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heap = m.HeapAlloc
	return s
}
