package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
)

// mixed draws a share of ever new questions about one document, a tenth that nobody else asks, and the rest again and again
// from so many keys.
func (w *World) mixed(hot float64, keys int) func(r *rand.Rand) question {
	const size = 4000 // bytes of a prompt
	n := 0
	return func(r *rand.Rand) question {
		n++
		key := w.caption(1 + r.IntN(keys))
		switch kind := r.Float64(); {
		case kind < hot:
			return question{"hot", "hot", padded(w.caption(0), size) + fmt.Sprint(" and ", n)}
		case kind > 0.9:
			return question{"fresh", "", padded(w.caption(1_000_000+n), size)}
		}
		return question{"cold", key, padded(key, size)}
	}
}

// both runs five requests for each key, so many a second, in two clusters before empty caches: with a hot prefix that has a
// share of them, and without. Keys beside it are to stay where they are, and nearly as warm: its copies take room. look gets the
// first cluster.
func (w *World) both(models []*Model, share, rate float64, keys int, look func(*Cluster, *flow)) {
	var cold [2]*tally
	for i, share := range []float64{share, 0} {
		c := w.Cluster(3, models, w.salted())
		w.settle(c)
		f := flow{w: w, rate: rate, requests: 5 * keys, warm: 5 * keys / 2, tokens: 8, draw: w.mixed(share, keys)}
		f.run(c)
		cold[i] = f.kinds["cold"]
		if i == 0 {
			look(c, &f)
		}
		for _, r := range c.Routers {
			r.Stop()
		}
		for _, m := range models {
			m.Restart()
		}
	}
	with, without := cold[0], cold[1]
	w.Logf("with the hot prefix %s, without %s", with, without)
	if with.moves() > without.moves()+0.03 || with.hits() < without.hits()-0.06 || without.hits() < 0.85 {
		w.Errorf("with the hot prefix %s, without %s", with, without)
	}
}

// Of hundreds of model servers, a prefix with a quarter of the traffic gets as many as its traffic needs, and uses them;
// keys beside it stay where they are, and warm, as they do without it.
func TestAHotPrefixSpreadsOverHundreds(t *testing.T) {
	Run(t, Options{Seeds: 1, Most: 1}, func(w *World) {
		const servers = 200
		// The caches are so small that no more copies than alpha = 2 allows are worth their room.
		models := w.Models(servers, coarse, func(c *modelserver.Config) { c.MaxContext, c.KVTokens = 4096, 12288 })
		w.both(models, 0.25, 400, 800, func(c *Cluster, f *flow) {
			at := f.kinds["hot"].at
			k := w.hottest(c)
			w.Logf("%d servers for the hot prefix, its requests went to %d", k, len(at))
			// 2 x 0.25 x 200, and what it may keep of what it had before the routers knew the caches' size.
			if k < 90 || k > 150 || len(at) < k*3/4 || len(at) > k*5/4 {
				w.Errorf("%d servers for the hot prefix, its requests went to %d: %v", k, len(at), at)
			}
		})
	})
}

// A prefix with half of the traffic does not switch affinity off for the others.
func TestAHotPrefixLeavesTheOthersWarm(t *testing.T) {
	Run(t, Options{Seeds: 2, Most: 10}, func(w *World) {
		w.both(w.Models(8, coarse), 0.5, 60, 160, func(c *Cluster, f *flow) {
			if k, at := w.hottest(c), f.kinds["hot"].at; k != 8 || len(at) != 8 {
				w.Errorf("%d servers for the hot prefix, its requests went to %v", k, at)
			}
		})
	})
}

// Prompts stay where they are also where nobody streams: routers learn from whole answers when the work of a prompt is done,
// and do not take a server that still answers for one that has it before it.
func TestUnaryPromptsStay(t *testing.T) {
	Run(t, Options{Seeds: 1, Most: 3}, func(w *World) {
		c := w.Cluster(3, w.Models(100, coarse), w.salted())
		w.settle(c)
		f := flow{w: w, rate: 200, requests: 2000, warm: 1000, tokens: 8, draw: w.mixed(0, 400), body: unary}
		if cold := f.run(c).kinds["cold"]; cold.moves() > 0.25 || cold.hits() < 0.9 {
			w.Errorf("%s", cold)
		} else {
			w.Logf("%s", cold)
		}
	})
}

// Four documents before four servers of which each has room for one, asked about one at a time: each document gets a server of its
// own and stays there, through the first tables too, as there is no load that would be worth a copy.
func TestDocumentsShareOutTheCaches(t *testing.T) {
	Run(t, Options{Seeds: 3, Most: 10}, func(w *World) {
		const documents = 4
		models := w.Models(documents, coarse, func(c *modelserver.Config) { c.MaxContext, c.KVTokens = 2048, 2048 })
		c := w.Cluster(3, models, w.salted())
		w.settle(c)
		ask := w.caller()
		var prompts, warm int
		for round := range 16 {
			for _, document := range w.Rand.Perm(documents) {
				text := padded(w.caption(document), 5000) + fmt.Sprint(" and ", round)
				a := ask.post(c.Routers[w.Rand.IntN(len(c.Routers))], streamed(4, message{"user", text}))
				tokens, cached := a.usage()
				prompts, warm = prompts+tokens, warm+cached
				time.Sleep(time.Second)
			}
		}
		if share := float64(warm) / float64(prompts); share < 0.9 {
			w.Errorf("%.3f of the prompts was cached", share)
		}
	})
}

// hottest is how many servers the run of the hot table has that has most. All routers agree on the homes of all kinds of
// prompts.
func (w *World) hottest(c *Cluster) (servers int) {
	var bodies []string
	draw := w.mixed(0.5, 100)
	for range 50 {
		bodies = append(bodies, streamed(1, message{"user", draw(w.Rand).prompt}))
	}
	w.agreeOnHomes(c.Routers, bodies)
	for _, r := range c.Routers[0].Node().Epoch().Hot().Runs {
		servers = max(servers, r.Servers)
	}
	return servers
}
