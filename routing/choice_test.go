package routing

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRandomFollowsWeights(t *testing.T) {
	next := 0
	b := newBench(t, fleet(t, 3, Policy{Strategy: Random}, func(b *Backend) { b.Weight = []float64{1, 1, 2}[next]; next++ }))
	n := map[string]int{}
	for range 20000 {
		l := b.pick("always the same")
		if l.Decision != DecisionRandom {
			t.Fatal(l.Decision)
		}
		n[l.Backend.ID]++
		l.Release()
	}
	for id, want := range map[string]float64{"gpu-0": 0.25, "gpu-1": 0.25, "gpu-2": 0.5} {
		if got := float64(n[id]) / 20000; math.Abs(got-want) > 0.02 {
			t.Errorf("%s: %.3f, want %.2f", id, got, want)
		}
	}
}

// Row 5: with fewer requests than servers the ties are spread.
func TestLeastSpreadsTies(t *testing.T) {
	b := newBench(t, fleet(t, 4, Policy{Strategy: LeastOutstandingRequests}))
	n := map[string]int{}
	for range 4000 {
		l := b.pick("x")
		n[l.Backend.ID]++
		l.Release()
	}
	for id, k := range n {
		if k < 850 || k > 1150 {
			t.Errorf("%s was picked %d of 4000 times", id, k)
		}
	}
}

func TestLeastIsPerWeight(t *testing.T) {
	next := 0
	b := newBench(t, fleet(t, 2, Policy{Strategy: LeastOutstandingRequests}, func(b *Backend) { b.Weight = []float64{1, 3}[next]; next++ }))
	var leases []*Lease
	for range 40 {
		leases = append(leases, b.pick("x"))
	}
	if n := count(leases); n["gpu-0"] != 10 || n["gpu-1"] != 30 || leases[0].Decision != DecisionLeast {
		t.Errorf("%v", n)
	}
}

func TestFixedSpills(t *testing.T) {
	b := newBench(t, fleet(t, 5, Policy{Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 3}))
	rank := b.ranking("doc")
	want := []struct {
		rank     int
		decision Decision
	}{
		{0, DecisionHome},
		{0, DecisionHome},
		{0, DecisionHome},
		{1, DecisionOverflow}, // the lighter of the next two, the first of equals
		{2, DecisionOverflow},
		{1, DecisionOverflow},
		{2, DecisionOverflow},
		{1, DecisionOverflow}, // full from here on, so that the next two are 2 and 3
		{3, DecisionOverflow},
		{3, DecisionOverflow},
		{2, DecisionOverflow},
		{4, DecisionOverflow},
	}
	for i, w := range want {
		l := b.pick("doc")
		if l.Backend.ID != rank[w.rank] || l.Decision != w.decision || l.Home != rank[0] {
			t.Errorf("request %d went to %s (%s), want %s (%s)", i, l.Backend.ID, l.Decision, rank[w.rank], w.decision)
		}
	}
	for range 3 {
		b.pick("doc") // fills what is left
	}
	// All are full: the least loaded, the first of equals.
	for i := range 5 {
		if l := b.pick("doc"); l.Backend.ID != rank[i] {
			t.Errorf("beyond the threshold: %s, want %s", l.Backend.ID, rank[i])
		}
	}
}

// Row 5: at low load the relative bound spills nothing.
func TestRelativeBoundAtLowLoad(t *testing.T) {
	b := newBench(t, fleet(t, 16, Policy{Strategy: PrefixAware, PrefixLength: 1024}))
	for range 5 { // four more than the mean
		if l := b.pick("doc"); l.Decision != DecisionHome {
			t.Errorf("spilled at %d in flight", b.load(l.Home).InFlight)
		}
	}
	if l := b.pick("doc"); l.Decision != DecisionOverflow {
		t.Error("one key may have the home without limit")
	}
}

// Row 7: one hot key fills its home; the keys of the other servers stay at home.
func TestOneHotServerLeavesTheOthersAlone(t *testing.T) {
	for name, p := range map[string]Policy{
		"threshold": {Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 20},
		"relative":  {Strategy: PrefixAware, PrefixLength: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, fleet(t, 8, p))
			for range 30 {
				b.pick("hot:1000")
			}
			hot := b.place("hot:1000")
			stayed, all := 0, 0
			for i := range 200 {
				l := b.pick(fmt.Sprintf("cold%d:1000", i))
				if l.Home != hot.Home() {
					all++
					if l.Decision == DecisionHome {
						stayed++
					}
				}
				l.Release()
			}
			if stayed < all {
				t.Errorf("%d of %d cold keys stayed at home", stayed, all)
			}
		})
	}
}

// Row 3: the load shows from the moment of choice, before any answer.
func TestBurstSpreads(t *testing.T) {
	for name, p := range map[string]Policy{
		"auto":      {Strategy: PrefixAware},
		"threshold": {Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 16},
		"relative":  {Strategy: PrefixAware, PrefixLength: 1024},
		"least":     {Strategy: LeastOutstandingRequests},
	} {
		for _, tokens := range []int{2_000, 25_000} {
			t.Run(fmt.Sprint(name, tokens), func(t *testing.T) {
				b := newBench(t, fleet(t, 7, p))
				var same, distinct []*Lease
				for range 200 {
					same = append(same, b.pick(fmt.Sprintf("one start:%d", tokens)))
				}
				n := count(same)
				if most := slices.Max(slices.Collect(maps.Values(n))); len(n) < 6 || most > 80 {
					t.Errorf("one start: %v", n)
				}
				for _, l := range same {
					l.Release()
				}
				for i := range 200 {
					distinct = append(distinct, b.pick(fmt.Sprintf("%d:%d", i, tokens)))
				}
				n = count(distinct)
				if most := slices.Max(slices.Collect(maps.Values(n))); len(n) != 7 || most > 60 {
					t.Errorf("distinct: %v", n)
				}
			})
		}
	}
}

func TestAutoCapIsHard(t *testing.T) {
	b := newBench(t, fleet(t, 3, Policy{Strategy: PrefixAware, ConcurrencyThreshold: 2}))
	for range 6 {
		b.pick("x:1000")
	}
	if _, err := b.try("x"); !errors.Is(err, ErrSaturated) {
		t.Errorf("%v", err)
	}
}

// The hard cap holds for every strategy, and frees with each release.
func TestMaxInflightIsHard(t *testing.T) {
	for _, p := range allPolicies() {
		b := newBench(t, fleet(t, 3, p, maxInflight(2)))
		var leases []*Lease
		for range 6 {
			leases = append(leases, b.pick("x"))
		}
		if n := count(leases); n["gpu-0"] != 2 || n["gpu-1"] != 2 || n["gpu-2"] != 2 {
			t.Errorf("%v: %v", p, n)
		}
		if _, err := b.try("x"); !errors.Is(err, ErrSaturated) {
			t.Errorf("%v: %v", p, err)
		}
		leases[3].Release()
		if l := b.pick("x"); l.Backend.ID != leases[3].Backend.ID {
			t.Errorf("%v: not the free slot", p)
		}
	}
}

func allPolicies() []Policy {
	return []Policy{
		{Strategy: Random},
		{Strategy: LeastOutstandingRequests},
		{Strategy: PrefixAware},
		{Strategy: PrefixAware, PrefixLength: 1024},
		{Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 2},
	}
}

func TestRetryGoesElsewhere(t *testing.T) {
	for _, p := range allPolicies() {
		b := newBench(t, fleet(t, 4, p))
		var tried []string
		for range 4 {
			l := b.pick("x", tried...)
			if slices.Contains(tried, l.Backend.ID) {
				t.Fatalf("%v: %s again", p, l.Backend.ID)
			}
			if want := len(tried) > 0; (l.Decision == DecisionRetry) != want {
				t.Errorf("%v: %s after %d", p, l.Decision, len(tried))
			}
			tried = append(tried, l.Backend.ID)
			l.Release()
		}
		if _, err := b.try("x", tried...); !errors.Is(err, ErrNoBackend) {
			t.Errorf("%v: %v", p, err)
		}
		if p.Strategy == PrefixAware && !slices.Equal(tried, b.ranking("x")) {
			t.Errorf("%v: tried %v, ranking %v", p, tried, b.ranking("x"))
		}
	}
}

// Row 46: what cannot be told apart spreads by load, and nothing is kept by key.
func TestHostilePrompts(t *testing.T) {
	for _, p := range allPolicies() {
		b := newBench(t, fleet(t, 7, p))
		for i := range 3000 {
			b.pick(fmt.Sprint(i)).Release()
		}
		var leases []*Lease
		for range 700 {
			leases = append(leases, b.pick("always the same"))
		}
		for id, n := range count(leases) {
			if n > 200 {
				t.Errorf("%v: %s got %d of 700", p, id, n)
			}
		}
		if len(b.loads) != 7 {
			t.Errorf("%v: %d records", p, len(b.loads))
		}
	}
}

// The usual way, which looks at the home alone, decides like the full one.
func TestShortcutDecidesAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom(allPolicies()).Draw(rt, "policy")
		b := newBench(t, fleet(t, rapid.IntRange(1, 6).Draw(rt, "n"), p, maxInflight(9)))
		for range rapid.IntRange(0, 40).Draw(rt, "load") {
			l, err := b.try(fmt.Sprintf("%s:%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), rapid.IntRange(0, 5000).Draw(rt, "tokens")))
			if err == nil && rapid.Bool().Draw(rt, "answered") {
				l.FirstToken(b.now)
			}
		}
		pl := b.place(fmt.Sprint("a:", rapid.IntRange(0, 5000).Draw(rt, "tokens")))
		draw := rapid.Uint64().Draw(rt, "draw")
		short, err := b.choice(&pl, nil, draw, 1)
		if err != nil {
			rt.Fatal(err)
		}
		full := short
		if full.prepare() != nil {
			return // all are full
		}
		var want int
		switch full.form() {
		case random, least:
			want = full.least(full.measure(), draw)
		case fixed:
			want = full.bounded()
		case auto:
			want = full.auto()
		}
		got, err := short.choose()
		if err != nil || got != want {
			rt.Fatalf("shortcut %d, %v; full %d", got, err, want)
		}
	})
}

// least is the cheapest of the eligible ones, and of equals the best ranked; ranked are the first of them.
func TestLeastAgainstSorting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "n")
		weight := rapid.SampledFrom([]float64{1, 0.2, 3}).Draw(rt, "weight of some")
		b := newBench(t, fleet(t, n, adaptive(), maxInflight(3), func(b *Backend) {
			if strings.ContainsAny(b.ID, "147") {
				b.Weight = weight
			}
		}))
		pl := b.place(rapid.String().Draw(rt, "text"))
		for _, l := range b.pools[0].loads {
			l.inflight = rapid.IntRange(0, 3).Draw(rt, "inflight")
			l.prefill = rapid.Int64Range(0, 3).Draw(rt, "prefill") * 1000
		}
		c, err := b.choice(&pl, nil, 0, 1)
		if err != nil {
			rt.Fatal(err)
		}
		if err := c.prepare(); err != nil {
			return // all are full
		}
		m := rapid.SampledFrom([]measure{even, perWeight, prefill}).Draw(rt, "measure")
		want, eligible := -1, []int{}
		for _, i := range pl.order() {
			if c.status(i) != open {
				continue
			}
			eligible = append(eligible, i)
			if want < 0 || c.cost(m, i) < c.cost(m, want) {
				want = i
			}
		}
		if got := c.least(m, pl.pin); got != want {
			rt.Fatalf("least %d, want %d", got, want)
		}
		for most := range 5 {
			if f := c.ranked(most); !slices.Equal(f.list[:f.n], eligible[:min(most, len(eligible))]) {
				rt.Fatalf("the first %d are %v; want those of %v", most, f.list[:f.n], eligible)
			}
		}
	})
}

func TestExplain(t *testing.T) {
	b := newBench(t, fleet(t, 4, policy(), maxInflight(2)))
	rank := b.ranking("x:1000")
	first := b.pick("x:1000")
	b.pick("x:1000")
	pl := b.place("x:1000")
	got := b.Explain(&pl, b.now)
	if len(got) != 4 || got[0].Backend.ID != rank[0] || got[0].Eligible || got[0].Reason != "full" ||
		got[0].InFlight != 2 || got[0].PrefillTokens == 0 {
		t.Errorf("home: %+v", got[0])
	}
	first.Release()
	if l := b.load(rank[0]); l.InFlight != 1 {
		t.Error("Explain reserved something")
	}
	empty := newBench(t, fleet(t, 0, policy()))
	pl = empty.place("x")
	if got := empty.Explain(&pl, b.now); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
