package routing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/gossip/loads"
)

// simulation is a fleet of 16 model servers with 10 requests in flight on each in
// the mean, behind some replicas with views of some age. Requests have Zipf prefixes,
// answers take 4 s in the mean (log-normal, sigma 0.7).
type simulation struct {
	policy   Policy
	replicas int
	age      int // mean age of a view in ms: frames every age, half of that under way; 0: no view
	requests int
}

// seen is what came out, in shares of the requests.
type seen struct{ overflow, tail float64 } // tail: p99 of load over mean at admission

const (
	simServers   = 16
	simPerServer = 10
	simService   = 4000 // ms
)

func (s *simulation) run(tb testing.TB) seen {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	zipf := newZipf(500, 0.9)
	all := newRouters(tb, s.replicas, fleet(tb, simServers, s.policy))
	at := map[int][]func(){} // by ms
	inflight, total := map[string]int{}, 0
	overflow, counted, served := 0, 0, 0
	var ratios []float64
	next := 0.0
	for ms := 0; served < s.requests; ms++ {
		for _, do := range at[ms] {
			do()
		}
		delete(at, ms)
		if s.age > 0 && ms%s.age == 0 {
			broadcast(all, func(do func()) { at[ms+max(1, s.age/2)] = append(at[ms+max(1, s.age/2)], do) })
		}
		for ; next <= float64(ms); next += random.ExpFloat64() * simService / (simServers * simPerServer) {
			r := all[random.IntN(len(all))]
			r.now = epochStart.Add(time.Duration(ms) * time.Millisecond)
			text := fmt.Sprintf("prefix %d:%d", zipf.draw(random.Float64()), 500+random.IntN(4000))
			l := r.pick(text)
			took := int(simService * math.Exp(0.7*random.NormFloat64()-0.245))
			at[ms+min(300, took)] = append(at[ms+min(300, took)], func() { l.FirstToken(r.now) })
			at[ms+took+1] = append(at[ms+took+1], func() { l.Release(); inflight[l.Backend.ID]--; total-- })
			inflight[l.Backend.ID]++
			total++
			if served++; served > s.requests/10 { // after the start
				counted++
				ratios = append(ratios, float64(inflight[l.Backend.ID])*simServers/float64(total))
				if l.Decision == DecisionOverflow {
					overflow++
				}
			}
		}
	}
	slices.Sort(ratios)
	return seen{float64(overflow) / float64(counted), ratios[len(ratios)*99/100]}
}

// broadcast publishes what changed on all replicas; later delivers it.
func broadcast(all []*router, later func(func())) {
	for _, from := range all {
		before := from.publisher.Delta(math.MaxUint64 - 1).Sequence
		from.publish()
		frame := from.publisher.Delta(before)
		if len(frame.Entries) == 0 {
			continue
		}
		later(func() { deliver(all, from, frame) })
	}
}

func deliver(all []*router, from *router, f loads.Frame) {
	for _, to := range all {
		if to != from {
			to.hear(f, from)
		}
	}
}

type zipf []float64

func newZipf(n int, s float64) zipf {
	z, sum := make(zipf, n), 0.0
	for i := range z {
		sum += math.Pow(float64(i+1), -s)
		z[i] = sum
	}
	for i := range z {
		z[i] /= sum
	}
	return z
}

func (z zipf) draw(u float64) int { i, _ := slices.BinarySearch(z, u); return i }

// Row 4: with several replicas requests leave their homes about as often as with one
// that sees everything. Without each other's counts they would not: a replica that
// sees an eighth of the load sees no overload.
func TestFalseOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation")
	}
	for name, p := range map[string]Policy{
		"relative":  {Strategy: PrefixAware, PrefixLength: 1024},
		"threshold": {Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 14},
		"least":     {Strategy: LeastOutstandingRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(replicas, age int) seen {
				s := simulation{policy: p, replicas: replicas, age: age, requests: 4000}
				got := s.run(t)
				t.Logf("%d replicas, %3d ms: overflow %5.2f %%, p99 of load over mean %.2f", replicas, age, 100*got.overflow, got.tail)
				return got
			}
			perfect := run(1, 0)
			for _, n := range []int{2, 4, 8} {
				for _, age := range []int{20, 200} {
					if got := run(n, age); math.Abs(got.overflow-perfect.overflow) > 0.01 {
						t.Errorf("%d replicas at %d ms: overflow %.2f %%, one has %.2f %%", n, age, 100*got.overflow, 100*perfect.overflow)
					}
				}
			}
			if blind := run(8, 0); name != "least" && math.Abs(blind.overflow-perfect.overflow) < 0.05 {
				t.Errorf("8 replicas without a view do as well: overflow %.2f %%", 100*blind.overflow)
			}
		})
	}
}
