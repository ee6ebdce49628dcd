package loads

import (
	"fmt"
	"sync"
	"time"
)

// Table is what the other replicas said, by origin, and the sums of it. It is safe
// for concurrent use; but whoever passes sums on has to read and pass them in one
// step, or a later value may be overtaken by an earlier one.
type Table struct {
	mu      sync.Mutex // guards the rest
	origins map[string]*origin
	sums    map[Key]*total
}

// origin is a state that one replica's table had: never a mixture of two.
type origin struct {
	entries  map[Key]Entry
	sequence uint64
	digest   uint64
	heard    time.Time
}

// total is a sum that is kept up to date, and how many origins are in it.
type total struct {
	Sum
	origins int
}

// Sum is what all origins together have on one model server. The opinions are how
// many origins hold them.
type Sum struct {
	Key
	InFlight         int
	Prefill          int64
	Ejected, Refused int
	Succeeded        int
	Ready, Dead      int
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{origins: map[string]*origin{}, sums: map[Key]*total{}}
}

// Merge takes a frame in at the time it arrived and returns the keys whose sums may
// have changed. A frame that is older than what the origin has said is ignored, so
// frames may come twice and in any order. On an error nothing changes: the origin's
// last state stays, and ages until Expire. The errors are ErrGap, ErrFrame and
// ErrTooMany.
func (t *Table) Merge(f Frame, now time.Time) (changed []Key, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o, known := t.origins[f.Origin]
	switch {
	case !known && len(t.origins) >= MaxOrigins:
		return nil, fmt.Errorf("%w: %s is one more than %d origins", ErrTooMany, f.Origin, MaxOrigins)
	case !known:
		o = &origin{entries: map[Key]Entry{}}
	case f.Sequence < o.sequence:
		return nil, nil
	}
	digest, size := o.after(&f)
	if digest != f.Sum {
		return nil, fmt.Errorf("%w: of %s, at %d after %d", ErrGap, f.Origin, f.Sequence, o.sequence)
	}
	if size > MaxEntries {
		return nil, fmt.Errorf("%w: %s would have %d entries", ErrTooMany, f.Origin, size)
	}
	t.origins[f.Origin] = o
	o.sequence, o.digest = f.Sequence, digest
	if now.After(o.heard) {
		o.heard = now
	}
	return t.apply(o, &f), nil
}

// check finds what no publisher would send.
func (f *Frame) check() error {
	if f.Origin == "" || len(f.Origin) > MaxID {
		return fmt.Errorf("%w: bad origin", ErrFrame)
	}
	if len(f.Entries) > 2*MaxEntries {
		return fmt.Errorf("%w: a frame of %d entries from %s", ErrTooMany, len(f.Entries), f.Origin)
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		if !e.valid() || i > 0 && compareKeys(f.Entries[i-1].Key(), e.Key()) >= 0 {
			return fmt.Errorf("%w: entry %d of %s", ErrFrame, i, f.Origin)
		}
	}
	return nil
}

// after is the digest and the size that the origin's table would have.
func (o *origin) after(f *Frame) (digest uint64, size int) {
	if !f.Whole {
		digest, size = o.digest, len(o.entries)
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		if !f.Whole {
			if old, had := o.entries[e.Key()]; had {
				digest -= old.mark()
				size--
			}
		}
		if !e.resting() {
			digest += e.mark()
			size++
		}
	}
	return digest, size
}

// apply puts the frame's entries in the place of what was there.
func (t *Table) apply(o *origin, f *Frame) (changed []Key) {
	if f.Whole {
		changed = t.missing(o, f)
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		if key := e.Key(); t.replace(o, key, *e) {
			changed = append(changed, key)
		}
	}
	return changed
}

// missing takes out what a whole frame does not have.
func (t *Table) missing(o *origin, f *Frame) (changed []Key) {
	kept := make(map[Key]bool, len(f.Entries))
	for i := range f.Entries {
		kept[f.Entries[i].Key()] = true
	}
	for key := range o.entries {
		if !kept[key] {
			t.replace(o, key, Entry{ID: key.ID, Incarnation: key.Incarnation})
			changed = append(changed, key)
		}
	}
	return changed
}

// replace sets what an origin has on one key, in its table and in the sum.
func (t *Table) replace(o *origin, key Key, e Entry) (changed bool) {
	old, had := o.entries[key]
	if e == old || !had && e.resting() {
		return false
	}
	sum := t.sums[key]
	if sum == nil {
		sum = &total{Sum: Sum{Key: key}}
		t.sums[key] = sum
	}
	if had {
		sum.add(&old, -1)
		delete(o.entries, key)
	}
	if !e.resting() {
		sum.add(&e, 1)
		o.entries[key] = e
	}
	if sum.origins == 0 {
		delete(t.sums, key)
	}
	return true
}

// add counts an origin's entry in (1) or out (-1).
func (s *total) add(e *Entry, sign int) {
	s.origins += sign
	s.InFlight += sign * e.InFlight
	s.Prefill += int64(sign) * e.Prefill
	switch e.Verdict {
	case Ejected:
		s.Ejected += sign
	case Refused:
		s.Refused += sign
	case Well:
	}
	if e.Succeeded {
		s.Succeeded += sign
	}
	switch e.Probe {
	case Ready:
		s.Ready += sign
	case Dead:
		s.Dead += sign
	case Unprobed:
	}
}

// Drop forgets an origin, because it is no longer a member, and returns the keys whose sums changed.
func (t *Table) Drop(origin string) []Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drop(origin, nil)
}

func (t *Table) drop(name string, changed []Key) []Key {
	o, ok := t.origins[name]
	if !ok {
		return changed
	}
	for key := range o.entries {
		t.replace(o, key, Entry{ID: key.ID, Incarnation: key.Incarnation})
		changed = append(changed, key)
	}
	delete(t.origins, name)
	return changed
}

// Expire forgets the origins that were last heard longer ago than the silence, and
// returns the keys whose sums changed; one may be there twice.
func (t *Table) Expire(now time.Time, silence time.Duration) (changed []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, o := range t.origins {
		if now.Sub(o.heard) > silence {
			changed = t.drop(name, changed)
		}
	}
	return changed
}
