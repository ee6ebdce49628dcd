package hot

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const benchChain = 1000

// filled is a sketch full of the chunks of many chains, and those chains.
func filled(counters int) (*Sketch, [][]uint64) {
	rng := rand.New(rand.NewPCG(1, uint64(counters)))
	s := NewSketch(counters)
	chains := make([][]uint64, max(1, counters/benchChain))
	for i := range chains {
		chains[i] = make([]uint64, benchChain)
		for j := range chains[i] {
			chains[i][j] = rng.Uint64()
		}
		for s.Add(0, chains[i], 100); s.places.find(chains[i][benchChain-1], s.counters) < 0; {
			s.Add(0, chains[i], 100)
		}
	}
	return s, chains
}

func BenchmarkAdd(b *testing.B) {
	for _, counters := range []int{4096, 512 << 10} {
		b.Run(fmt.Sprintf("known/%d", counters), func(b *testing.B) {
			s, chains := filled(counters)
			rng := rand.New(rand.NewPCG(2, 2))
			b.ReportAllocs()
			for b.Loop() {
				s.Add(0, chains[rng.IntN(len(chains))], 100)
			}
		})
		// Half of each chain is known, and a tail that nobody shares follows.
		b.Run(fmt.Sprintf("half/%d", counters), func(b *testing.B) {
			s, chains := filled(counters)
			rng := rand.New(rand.NewPCG(2, 2))
			chain := make([]uint64, benchChain)
			b.ReportAllocs()
			for b.Loop() {
				copy(chain[:benchChain/2], chains[rng.IntN(len(chains))])
				for i := benchChain / 2; i < benchChain; i++ {
					chain[i] = rng.Uint64()
				}
				s.Add(0, chain, 100)
			}
		})
	}
}

// What holds the lock longest: all counters decay, or are looked at for a report, or were visited since the last eviction
// and the next one has to find that out.
func BenchmarkLocked(b *testing.B) {
	for _, counters := range []int{4096, 512 << 10} {
		s, chains := filled(counters)
		b.Run(fmt.Sprintf("decay/%d", counters), func(b *testing.B) {
			for b.Loop() {
				s.Decay(0.999999)
			}
		})
		b.Run(fmt.Sprintf("report/%d", counters), func(b *testing.B) {
			for b.Loop() {
				s.Report(1e9, 1<<16)
			}
		})
		b.Run(fmt.Sprintf("eviction/%d", counters), func(b *testing.B) {
			worst := time.Duration(0)
			for next := uint64(1); b.Loop(); next++ {
				for _, c := range chains {
					s.Add(0, c, 100)
				}
				start := time.Now()
				s.Add(0, []uint64{next}, 100)
				worst = max(worst, time.Since(start))
			}
			b.ReportMetric(float64(worst.Microseconds()), "us/worst")
		})
	}
}

func BenchmarkMake(b *testing.B) {
	for _, counters := range []int{4096, 100 << 10} {
		b.Run(fmt.Sprintf("3x%d", counters), func(b *testing.B) {
			s, _ := filled(counters)
			r := s.Report(0.5, counters)
			reports := []Report{r, r, r}
			cfg := Config{Servers: counters / 512}
			before := Make(nil, reports, cfg).Runs
			for b.Loop() {
				Make(before, reports, cfg)
			}
		})
	}
}
