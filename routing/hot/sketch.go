package hot

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

const (
	maxCounters = 1<<tagShift - 1 // of a sketch: a slot has 24 bits for the place of a counter, and 0 for none
	// fewUnknown is how many unknown chunks a request may bring in however little of it is known.
	fewUnknown = 4
	// writtenOver is how many requests the running mean of tokens written looks back over.
	writtenOver = 500
	// ahead is how many chunks are looked up at once; a power of two.
	ahead = 32
)

// Sketch counts the chunks that requests visit, in bounded memory: 48 to 64 bytes a counter, all taken at once. It is
// Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient computation of frequent and top-k elements in data streams",
// 2005): a chunk that has no counter takes the smallest one over, and that one's count becomes its error. So what was
// counted since then is a lower bound of the chunk's visits, that and the error together an upper one, and with m counters
// no chunk with more than 1/m of all visits that were counted is missing. Counts are of single precision: a chunk stops at
// 16.7 million. It is safe for concurrent use.
type Sketch struct {
	mu        sync.Mutex // guards what follows
	capacity  int
	counters  []counter
	places    places
	smallest  heap
	requests  float64
	written   float64 // mean tokens of a request
	writes    int     // requests in that mean, at most writtenOver
	evictions uint64
}

type counter struct {
	chunk, parent uint64
	low, err      float32
}

func (c *counter) count() float32 { return c.low + c.err }

// NewSketch makes an empty sketch of 1 to 16.7 million counters.
func NewSketch(counters int) *Sketch {
	s := &Sketch{}
	s.build(bounded(counters), nil)
	return s
}

func bounded(counters int) int { return min(max(counters, 1), maxCounters) }

// build makes room for counters and takes those of kept, which are not more.
func (s *Sketch) build(counters int, kept []counter) {
	s.capacity = counters
	s.counters = append(make([]counter, 0, counters), kept...)
	s.places = newPlaces(counters)
	s.smallest = make(heap, 0, counters)
	for i := range s.counters {
		s.places.add(s.counters[i].chunk, i)
		s.smallest.push(s.counters[i].count(), i)
	}
}

// Resize changes the number of counters and keeps the largest.
func (s *Sketch) Resize(counters int) {
	counters = bounded(counters)
	s.mu.Lock()
	defer s.mu.Unlock()
	if counters == s.capacity {
		return
	}
	kept := s.counters
	if len(kept) > counters {
		slices.SortFunc(kept, func(a, b counter) int {
			return cmp.Or(cmp.Compare(b.count(), a.count()), cmp.Compare(a.chunk, b.chunk))
		})
		kept = kept[:counters]
	}
	s.build(counters, kept)
}

// Add counts one request: its root, the hashes of its chunks from the first on, and the tokens it writes to a cache. What
// is below 0 or no number is not in the mean. Known chunks are counted; unknown ones only while they are at most as many as
// those that were known before them, or four: so tails that nobody shares do not flood the sketch, and yet a deep prefix
// is known after a few visits. Add keeps nothing of chain and allocates nothing.
func (s *Sketch) Add(root uint64, chain []uint64, written float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if written >= 0 && !math.IsInf(written, 1) {
		s.writes = min(s.writes+1, writtenOver)
		s.written += (written - s.written) / float64(s.writes)
	}
	v := visit{parent: root}
	for len(chain) > 0 && !v.done {
		n := min(len(chain), ahead)
		s.visit(chain[:n], &v)
		chain = chain[n:]
	}
}

// visit is how far a request has come.
type visit struct {
	parent         uint64
	known, unknown int
	done           bool
}

// visit counts at most ahead chunks. It guesses the places of all of them first, as no guess waits for another: so the
// memory of a large sketch, which no cache holds, is waited for once and not once a chunk.
func (s *Sketch) visit(chain []uint64, v *visit) {
	var guess [ahead]int32
	for j, chunk := range chain {
		guess[j&(ahead-1)] = int32(s.places.guess(chunk))
	}
	for j, chunk := range chain {
		i := int(guess[j&(ahead-1)])
		if i < 0 || s.counters[i].chunk != chunk { // moved since, or of another with its tag
			i = s.places.find(chunk, s.counters)
		}
		switch {
		case i >= 0:
			s.counters[i].low++
			v.known++
		case v.unknown < max(fewUnknown, v.known):
			s.take(chunk, v.parent)
			v.unknown++
		default:
			v.done = true
			return
		}
		v.parent = chunk
	}
}

// take gives a counter to a chunk that has none: a free one, or the smallest.
func (s *Sketch) take(chunk, parent uint64) {
	fresh := counter{chunk: chunk, parent: parent, low: 1}
	if i := len(s.counters); i < s.capacity {
		s.counters = append(s.counters, fresh)
		s.places.add(chunk, i)
		s.smallest.push(1, i)
		return
	}
	i := s.least()
	c := &s.counters[i]
	s.places.remove(c.chunk, s.counters)
	fresh.err = c.count()
	*c = fresh
	s.places.add(chunk, i)
	s.smallest.raise(c.count())
	s.evictions++
}

// least finds the smallest counter and leaves it at the root of the heap. The heap is not told of visits; but counts only
// grow, so its own are lower bounds, and the root is the smallest as soon as its own is right.
func (s *Sketch) least() int {
	for {
		root := s.smallest[0]
		now := s.counters[root.at].count()
		if now <= root.count {
			return int(root.at)
		}
		s.smallest.raise(now)
	}
}

// Decay multiplies counts, errors and requests by a factor from 0 to 1; it does nothing for others.
func (s *Sketch) Decay(factor float64) {
	if !(factor >= 0 && factor <= 1) {
		return
	}
	f := float32(factor)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests *= factor
	for i := range s.counters {
		s.counters[i].low *= f
		s.counters[i].err *= f
	}
	for i := range s.smallest {
		s.smallest[i].count *= f // keeps the order
	}
}
