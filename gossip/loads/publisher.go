package loads

import (
	"cmp"
	"slices"
	"sync"
)

// Publisher is this replica's own table, and makes the frames that bring peers up
// to date. A peer is a cursor: the sequence of the last frame that was sent to it.
// It is safe for concurrent use.
type Publisher struct {
	origin string

	mu      sync.Mutex // guards the rest
	version uint64     // of the table
	digest  uint64
	entries map[Key]stamped
	active  int // entries that are not at rest
	// journal is the keys by the version that last changed them; older mentions of a
	// key are stale. One at rest is kept in entries as long as it is mentioned here.
	journal []change
	// floor is the version of the latest change that the journal has forgotten.
	floor uint64
	wake  chan struct{} // closed at the next change; nil when nobody waits
}

type stamped struct {
	Entry
	version uint64
}

// active reports whether there is such an entry and it says something.
func (s *stamped) active() bool { return s.version > 0 && !s.resting() }

type change struct {
	version uint64
	key     Key
}

// NewPublisher returns an empty table of the origin, which is a name that no other
// process has had.
func NewPublisher(origin string) *Publisher {
	return &Publisher{origin: origin, entries: map[Key]stamped{}}
}

// Set replaces what is said about a model server and reports whether that is new.
// Counts out of range are cut; beyond MaxEntries model servers no further one is taken
// in.
func (p *Publisher) Set(e Entry) bool {
	e.InFlight = min(max(0, e.InFlight), maxCount)
	e.Prefill = min(max(0, e.Prefill), maxWork)
	p.mu.Lock()
	defer p.mu.Unlock()
	key := e.Key()
	old := p.entries[key]
	was, is := old.active(), !e.resting()
	if !e.valid() || old.Entry == e || !was && !is || !was && p.active >= MaxEntries {
		return false
	}
	if was {
		p.active--
	}
	if is {
		p.active++
	}
	p.version++
	p.digest += e.mark() - old.mark()
	p.entries[key] = stamped{e, p.version}
	p.journal = append(p.journal, change{p.version, key})
	p.compact()
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
	return true
}

// compact keeps the journal within a few times the number of active model servers: stale
// mentions go, and in the older half those at rest. Whoever is further behind than
// that gets a whole frame.
func (p *Publisher) compact() {
	if len(p.journal) <= 4*p.active+256 {
		return
	}
	half := p.journal[len(p.journal)/2].version
	p.journal = slices.DeleteFunc(p.journal, func(c change) bool {
		e := p.entries[c.key]
		if e.version != c.version {
			return true
		}
		if c.version < half && e.resting() {
			delete(p.entries, c.key)
			p.floor = c.version
			return true
		}
		return false
	})
}

// Whole returns the whole table; the cursor of whoever is sent it is its Sequence.
func (p *Publisher) Whole() Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.whole()
}

func (p *Publisher) whole() Frame {
	f := p.frame()
	f.Whole = true
	for _, e := range p.entries {
		if !e.resting() {
			f.Entries = append(f.Entries, e.Entry)
		}
	}
	f.sort()
	return f
}

// Delta returns what changed since the frame with that sequence, whole when that is
// too long ago. Without entries it is a sign of life.
func (p *Publisher) Delta(since uint64) Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since < p.floor {
		return p.whole()
	}
	f := p.frame()
	from, _ := slices.BinarySearchFunc(p.journal, since+1, func(c change, v uint64) int {
		return cmp.Compare(c.version, v)
	})
	for _, c := range p.journal[from:] {
		if e := p.entries[c.key]; e.version == c.version {
			f.Entries = append(f.Entries, e.Entry)
		}
	}
	f.sort()
	return f
}

// Changed returns a channel that is closed once there is something after the frame
// with that sequence.
func (p *Publisher) Changed(since uint64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version > since {
		now := make(chan struct{})
		close(now)
		return now
	}
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	return p.wake
}

func (p *Publisher) frame() Frame {
	return Frame{Origin: p.origin, Sequence: p.version, Sum: p.digest}
}

func (f *Frame) sort() {
	slices.SortFunc(f.Entries, func(a, b Entry) int { return compareKeys(a.Key(), b.Key()) })
}
