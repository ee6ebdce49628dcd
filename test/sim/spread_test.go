package sim

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
)

// spread is traffic that comes at random to some servers, ten requests on each in the mean, and what became of it.
type spread struct {
	w        *World
	c        *Cluster
	prompt   func(r *rand.Rand) (prompt string, hot bool)
	requests int

	mu     sync.Mutex // guards what follows
	cold   shares     // of requests that are not hot, but for those whose home is that of the hot ones
	all    shares
	hotAt  map[string]int // by the server that answered
	failed string         // an answer that was none
}

// shares are requests and how many of them did not go home.
type shares struct{ asked, away int }

func (s *shares) add(a answer) {
	s.asked++
	if a.decision != string(routing.DecisionHome) {
		s.away++
	}
}

func (s shares) overflow() float64 { return float64(s.away) / float64(max(1, s.asked)) }

const (
	spreadServers = 8
	spreadTokens  = 10 // of an answer: it takes 1.2 s
	spreadRate    = 10 * spreadServers / 1.2
)

// coarse makes a model server take a tenth of the steps, each ten times as long: they are what costs real time.
func coarse(c *modelserver.Config) { c.Cost.Step *= 10 }

// salted takes a salt that is the same whoever founds: so are all homes.
func (w *World) salted() func(*node.Config) {
	salt := filepath.Join(w.t.TempDir(), "salt")
	if err := os.WriteFile(salt, []byte("the same for all clusters"), 0o600); err != nil {
		w.Fatalf("%v", err)
	}
	return func(cfg *node.Config) { cfg.Router.SaltFile = salt }
}

// bounded routes by a fixed prefix length, under the relative bound, and is salted.
func (w *World) bounded() func(*node.Config) {
	salted := w.salted()
	return func(cfg *node.Config) {
		salted(cfg)
		cfg.Endpoints[0].Variants = []fleet.Variant{{
			Name: "main", Weight: 1, Routing: fleet.Routing{Strategy: routing.PrefixAware, PrefixLength: 1024},
		}}
	}
}

// run asks at the same times for the same prompts, whatever the cluster.
func (s *spread) run() {
	s.hotAt = map[string]int{}
	ask := s.w.caller()
	random, which := rand.New(rand.NewPCG(s.w.Seed, 1)), rand.New(rand.NewPCG(s.w.Seed, 2))
	next := time.Now()
	for i := range s.requests {
		next = next.Add(time.Duration(random.ExpFloat64() / spreadRate * float64(time.Second)))
		time.Sleep(time.Until(next))
		prompt, hot := s.prompt(random)
		ask.begin(s.c.Routers[which.IntN(len(s.c.Routers))], padded(prompt, 1100), spreadTokens, func(a answer) {
			if i > s.requests/10 { // the servers have filled
				s.count(a, hot)
			}
		})
	}
	ask.asked.Wait()
	if s.failed != "" {
		s.w.Errorf("a request failed: %s", s.failed)
	}
}

func (s *spread) count(a answer, hot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.decision == "" {
		s.failed = a.text
	}
	s.all.add(a)
	switch {
	case hot:
		s.hotAt[a.backend]++
	case a.home != hotHome(s.hotAt):
		s.cold.add(a)
	}
}

// hotHome is who answers most of the hot requests.
func hotHome(at map[string]int) (home string) {
	for id, n := range at {
		if n > at[home] {
			home = id
		}
	}
	return home
}

// The view of eight routers is as good as one router's: no more than a point of requests more overflow, with ten in flight
// on each server.
func TestFalseOverflow(t *testing.T) {
	Run(t, Options{Seeds: 1, Most: 3}, func(w *World) {
		models := w.Models(spreadServers, coarse)
		bounded := w.bounded()
		zipf := func(r *rand.Rand) (string, bool) {
			return w.caption(int(rand.NewZipf(r, 1.1, 10, 500).Uint64())), false
		}
		alone := 0.0
		for _, n := range []int{1, 2, 4, 8} {
			c := w.Cluster(n, models, bounded)
			w.settle(c)
			s := spread{w: w, c: c, prompt: zipf, requests: 3000}
			s.run()
			share := s.all.overflow()
			w.Logf("%d routers: %.1f %% of %d requests overflow", n, 100*share, s.all.asked)
			if n == 1 {
				alone = share
			}
			if share > alone+0.01 { // fewer is chance, not a fault
				w.Errorf("%d routers: %.3f of the requests overflow, %.3f with one", n, share, alone)
			}
			for _, r := range c.Routers {
				r.Stop()
			}
		}
	})
}

// One prefix has a quarter of the traffic, twice what a server should have. It spreads over others, and the keys that live
// there keep their homes: nearly as many as without it.
func TestAHotPrefixSpreadsAndOthersStay(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		c := w.Cluster(3, w.Models(spreadServers, coarse), w.bounded())
		w.settle(c)
		cold := func(r *rand.Rand) string { return w.caption(1 + r.IntN(400)) }
		without := spread{w: w, c: c, requests: 1200, prompt: func(r *rand.Rand) (string, bool) { return cold(r), false }}
		without.run()
		with := spread{w: w, c: c, requests: 1200, prompt: func(r *rand.Rand) (string, bool) {
			if r.Float64() < 0.25 {
				return w.caption(0), true
			}
			return cold(r), false
		}}
		with.run()
		total := 0
		for _, n := range with.hotAt {
			total += n
		}
		w.Logf("hot: %v; away from home: %.3f of the cold requests, %.3f without the hot prefix", with.hotAt, with.cold.overflow(), without.cold.overflow())
		// Its home has 14 places at 80 in flight, and keys of its own; the prefix needs 20.
		if most := with.hotAt[hotHome(with.hotAt)]; len(with.hotAt) < 3 || float64(most) > 0.8*float64(total) {
			w.Errorf("the hot prefix went to %v", with.hotAt)
		}
		if a, b := with.cold.overflow(), without.cold.overflow(); a > b+0.03 {
			w.Errorf("%.3f of the cold requests are away from home, %.3f without the hot prefix", a, b)
		}
	})
}
