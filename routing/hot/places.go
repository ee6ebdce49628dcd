package hot

import "math/bits"

// places finds the counter of a chunk: an open-addressed table with linear probing, an eighth to a quarter full. The keys are
// in the counters; a slot has eight bits of the key, so that a search which meets others looks at their counters one time in
// 256. A map of the language takes three times as long in a small sketch, five times in one that no cache holds.
type places struct {
	slots []uint32 // place of the counter + 1 and above it the tag; 0 where there is none
	shift int
}

const (
	tagShift = 24
	atMask   = 1<<tagShift - 1
)

func newPlaces(counters int) places {
	b := bits.Len(uint(4*counters - 1))
	return places{slots: make([]uint32, 1<<b), shift: 64 - b}
}

// home of a chunk: multiplicative hashing (Knuth, TAOCP 3, 6.4) with 2^64 over the golden ratio.
func (p *places) home(chunk uint64) int { return int(chunk * 0x9e3779b97f4a7c15 >> p.shift) }

// tag is the low bits of a chunk, which are a hash themselves, in their place in a slot.
func tag(chunk uint64) uint32 { return uint32(chunk) << tagShift }

func (p *places) next(slot int) int { return (slot + 1) & (len(p.slots) - 1) }

// guess returns the place of the counter that is most likely the chunk's, -1 if it has none. It looks at no counter.
func (p *places) guess(chunk uint64) int {
	i := p.home(chunk)
	for p.slots[i] != 0 && (p.slots[i]^tag(chunk))>>tagShift != 0 {
		i = p.next(i)
	}
	return int(p.slots[i]&atMask) - 1
}

// slot where chunk is, or where it would be added.
func (p *places) slot(chunk uint64, counters []counter) int {
	i := p.home(chunk)
	for p.slots[i] != 0 && ((p.slots[i]^tag(chunk))>>tagShift != 0 || counters[p.slots[i]&atMask-1].chunk != chunk) {
		i = p.next(i)
	}
	return i
}

// find returns the place of a chunk's counter, -1 if it has none.
func (p *places) find(chunk uint64, counters []counter) int {
	return int(p.slots[p.slot(chunk, counters)]&atMask) - 1
}

// add puts in a chunk that is not there.
func (p *places) add(chunk uint64, at int) {
	i := p.home(chunk)
	for p.slots[i] != 0 {
		i = p.next(i)
	}
	p.slots[i] = tag(chunk) | uint32(at+1)
}

// remove takes a chunk out and closes the gap, so that no search ends early (Knuth's algorithm R there).
func (p *places) remove(chunk uint64, counters []counter) {
	gap := p.slot(chunk, counters)
	for i := p.next(gap); p.slots[i] != 0; i = p.next(i) {
		home := p.home(counters[p.slots[i]&atMask-1].chunk)
		// Only an entry whose home is not after the gap, around the end of the table, may move into it.
		if (i-home)&(len(p.slots)-1) >= (i-gap)&(len(p.slots)-1) {
			p.slots[gap] = p.slots[i]
			gap = i
		}
	}
	p.slots[gap] = 0
}
