package hot

import (
	"cmp"
	"slices"
)

// Count is how often a chunk was visited. Parent is the chunk before it, or the root of its chain. Visits is a lower bound.
type Count struct {
	Chunk, Parent uint64
	Visits        float64
}

// Report is what a router tells of its sketch: the decayed number of requests, the mean of the tokens that one of them
// writes to a cache (0: unknown), and counts in ascending order of their chunks.
type Report struct {
	Requests, Written float64
	Counts            []Count
}

// Stats says how full a sketch is. Evictions is how many counters were given to another chunk, ever.
type Stats struct {
	Counters, Capacity int
	Evictions          uint64
}

// Floor is from how many visits on each of so many routers tells a chunk. What is visited by few is then told by most of them
// or by none: were a chunk with two visits at each of eight routers told by some and not by others, chance would decide
// whether it is hot. Below a half, all that came in the last half-life would be told.
func Floor(routers int) float64 { return max(0.5, 1.5/float64(max(1, routers))) }

// Report returns the counters whose lower bound is at least floor, the largest if there are more than most.
func (s *Sketch) Report(floor float64, most int) Report {
	r := s.over(floor)
	if len(r.Counts) > most {
		slices.SortFunc(r.Counts, func(a, b Count) int {
			return cmp.Or(cmp.Compare(b.Visits, a.Visits), cmp.Compare(a.Chunk, b.Chunk))
		})
		r.Counts = slices.Clone(r.Counts[:max(0, most)])
	}
	slices.SortFunc(r.Counts, func(a, b Count) int { return cmp.Compare(a.Chunk, b.Chunk) })
	return r
}

func (s *Sketch) over(floor float64) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{Requests: s.requests, Written: s.written}
	for _, c := range s.counters {
		if float64(c.low) >= floor {
			r.Counts = append(r.Counts, Count{Chunk: c.chunk, Parent: c.parent, Visits: float64(c.low)})
		}
	}
	return r
}

// Stats of this moment.
func (s *Sketch) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Counters: len(s.counters), Capacity: s.capacity, Evictions: s.evictions}
}
