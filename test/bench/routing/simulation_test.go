package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/workload"
)

func testLinks() links { return links{gap: 100 * time.Millisecond, delay: 20 * time.Millisecond} }

// simulate plays a script with one policy.
func simulate(t *testing.T, s *workload.Script, policy string, routers int, k cost) *simulation {
	t.Helper()
	p, err := resolve(policy, s.Name)
	if err != nil {
		t.Fatal(err)
	}
	m := newSimulation(s, k, routers, 1)
	if policy == oraclePolicy {
		m.run(&oracle{servers: m.servers})
		return m
	}
	c := newCluster(m.clock, testLinks(), p, routers, k.kv, 1)
	m.run(c)
	if c.err != nil {
		t.Fatal(c.err)
	}
	return m
}

func script(t *testing.T, name string, length float64) *workload.Script {
	t.Helper()
	s, err := workload.New(name, workload.Options{Seed: 1, Length: length})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// One prompt twice, far apart, on one model server: the figures can be computed by hand.
func TestServerComputesAsVLLMDoes(t *testing.T) {
	one := script(t, "single", 0.1)
	ask := one.Sessions[0]
	one.Servers, one.Clients, one.Warm, one.End = 1, 0, 0, 2*time.Minute
	second := ask
	ask.Start, second.Start = 0, time.Minute
	one.Sessions = []workload.Session{ask, second}
	k := large()
	m := simulate(t, one, randomPolicy, 1, k)

	const prompt = 2010
	cached := (prompt - 1) / 16 * 16
	for i, computed := range []float64{k.prefill(0, prompt), k.prefill(cached, prompt)} {
		want := k.fixed + k.step + time.Duration(computed*float64(time.Second))
		if got := m.tally.all[i].took; got-want > time.Microsecond || want-got > time.Microsecond {
			t.Errorf("first token %d after %v, want %v", i, got, want)
		}
	}
	if m.tally.hit != cached || m.tally.tokens != 2*prompt {
		t.Errorf("%d of %d tokens from the cache, want %d of %d", m.tally.hit, m.tally.tokens, cached, 2*prompt)
	}
}

// With a cache that is much too small everything is answered, and every block is given back.
func TestCacheKeepsItsAccounts(t *testing.T) {
	s := script(t, "c", 0.05)
	s.End += 10 * time.Minute // for the last answers
	k := large()
	k.kv = 200_000
	m := simulate(t, s, leastPolicy, 2, k)
	if len(m.tally.all) != s.Requests() {
		t.Fatalf("%d answers to %d requests", len(m.tally.all), s.Requests())
	}
	for n, sv := range m.servers {
		c := sv.cache
		held := 0
		for id := c.blocks[0].next; id != 0; id = c.blocks[id].next {
			if c.blocks[id].users != 1 {
				t.Fatalf("server %d: block %d is among the free ones and has %d users", n, id, c.blocks[id].users-1)
			}
			held++
		}
		if c.reserved != 0 || c.shared != c.free || held != c.free || c.shared > c.capacity || sv.pending != 0 {
			t.Errorf("server %d: %d reserved, %d shared, %d free, %d in the ring, capacity %d, %d tokens pending", n, c.reserved, c.shared, c.free, held, c.capacity, sv.pending)
		}
	}
}

func TestRunsAreDeterministic(t *testing.T) {
	for _, policy := range []string{randomPolicy, bestPolicy, autoPolicy, oraclePolicy} {
		a := simulate(t, script(t, "c", 0.03), policy, 3, large()).figures()
		b := simulate(t, script(t, "c", 0.03), policy, 3, large()).figures()
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s: two runs differ:\n%s", policy, d)
		}
	}
}

// The order of the policies is what the benchmark is there to show.
func TestPrefixesArePlacedTogether(t *testing.T) {
	hit := map[string]float64{}
	for _, policy := range []string{randomPolicy, autoPolicy, oraclePolicy} {
		f := simulate(t, script(t, "a2", 0.12), policy, 3, large()).figures()
		hit[policy] = f.Hit
		if policy == autoPolicy && (f.Agree == nil || *f.Agree < 0.8) {
			t.Errorf("routers agree on too few requests: %v", f.Agree)
		}
	}
	if hit[randomPolicy] > 0.2 || hit[autoPolicy] < 0.45 || math.Abs(hit[autoPolicy]-hit[oraclePolicy]) > 0.05 {
		t.Errorf("hits %v: want few with random, and as many with auto as with the oracle", hit)
	}
}

func TestFleetChanges(t *testing.T) {
	f := simulate(t, script(t, "fleet-a", 0.2), autoPolicy, 3, large()).figures()
	if len(f.Moved) != 2 || f.Moved[0] < 0.05 || f.Moved[0] > 0.2 || f.Moved[1] < 0.15 || f.Moved[1] > 0.35 {
		t.Errorf("moved keys %v, want about 1/8 and 2/8", f.Moved)
	}
	if len(f.Around) != 4 || len(f.Settled) != 1 || f.ShareMin == 0 {
		t.Errorf("around %v, settled %v, least share %v", f.Around, f.Settled, f.ShareMin)
	}
}

// A model server that stalls answers nothing until it is over.
func TestStall(t *testing.T) {
	s := script(t, "stall-c", 0.1)
	m := simulate(t, s, randomPolicy, 1, large())
	from, to := s.Stalls[0].From, s.Stalls[0].To
	waited := 0
	for _, a := range m.tally.all {
		if a.server != s.Stalls[0].Server || a.arrived < from+time.Second || a.arrived >= to {
			continue
		}
		if waited++; a.arrived+a.took < to {
			t.Errorf("a request of %v was answered at %v, in the stall", a.arrived, a.arrived+a.took)
		}
	}
	if waited == 0 {
		t.Error("no request met the stall")
	}
}

func TestClock(t *testing.T) {
	var c clock
	var got []int
	c.after(2, func() { got = append(got, 2) })
	c.after(1, func() {
		got = append(got, 1)
		c.after(1, func() { got = append(got, 3) }) // at 2, but set later
	})
	c.after(5, func() { got = append(got, 5) })
	c.run(5)
	if d := cmp.Diff([]int{1, 2, 3}, got); d != "" || c.now != 5 {
		t.Errorf("at %v: %s", c.now, d)
	}
}

func TestResolve(t *testing.T) {
	p, err := resolve("fixed-2048", "c")
	if err != nil || p != (routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 2048}) {
		t.Errorf("fixed-2048 is %+v, %v", p, err)
	}
	for _, name := range []string{"", "fixed-", "fixed-1", "fixed-x", "fixed-100000", "Auto"} {
		if _, err := resolve(name, "c"); err == nil {
			t.Errorf("%q is a policy", name)
		}
	}
}

// asking is a cluster whose routers are asked what they would choose before they do.
type asking struct {
	*cluster
	asked, wrong int
}

func (a *asking) pick(q *call) (int, bool) {
	r := a.routers[q.router]
	pl := a.place(r.picker.Epoch(), q.turn)
	would := a.would(r, &pl)
	server, over := a.cluster.pick(q)
	a.asked++
	if would != q.lease.Backend.ID {
		a.wrong++
	}
	return server, over
}

// Agreement is measured by asking, so the answers must be true.
func TestRoutersDoWhatTheySay(t *testing.T) {
	for _, policy := range []string{bestPolicy, autoPolicy} {
		s := script(t, "c", 0.1)
		k := large()
		p, err := resolve(policy, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		m := newSimulation(s, k, 3, 1)
		a := &asking{cluster: newCluster(m.clock, testLinks(), p, 3, k.kv, 1)}
		m.run(a)
		if a.err != nil || a.asked == 0 || a.wrong > 0 {
			t.Errorf("%s: %d of %d requests went elsewhere, error %v", policy, a.wrong, a.asked, a.err)
		}
	}
}
