package modelserver

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveCache is the cache as one would explain it: a list of published blocks
// in the order of their last use, searched from end to end.
type naiveCache struct {
	capacity int
	blocks   []naiveBlock // free ones: least recently freed first
	reserved int
}

type naiveBlock struct {
	id   blockID
	refs int
}

func (n *naiveCache) find(id blockID) int {
	return slices.IndexFunc(n.blocks, func(b naiveBlock) bool { return b.id == id })
}

func (n *naiveCache) reserve(hit []blockID, need int) bool {
	trial := naiveCache{n.capacity, slices.Clone(n.blocks), n.reserved + need}
	for _, id := range hit {
		trial.blocks[trial.find(id)].refs++
	}
	for len(trial.blocks)+trial.reserved > trial.capacity {
		i := slices.IndexFunc(trial.blocks, func(b naiveBlock) bool { return b.refs == 0 })
		if i < 0 {
			return false
		}
		trial.blocks = slices.Delete(trial.blocks, i, i+1)
	}
	*n = trial
	return true
}

func (n *naiveCache) publish(id blockID) bool {
	if n.find(id) >= 0 {
		return false
	}
	n.blocks = append(n.blocks, naiveBlock{id, 1})
	n.reserved--
	return true
}

func (n *naiveCache) release(held []blockID, reserved int) {
	n.reserved -= reserved
	for _, id := range slices.Backward(held) {
		i := n.find(id)
		b := n.blocks[i]
		b.refs--
		if b.refs > 0 {
			n.blocks[i] = b
			continue
		}
		n.blocks = append(slices.Delete(n.blocks, i, i+1), b) // the most recently used
	}
}

// holder is a request that holds blocks of the cache.
type holder struct {
	ids      []blockID
	next     int // blocks computed
	held     []blockID
	reserved int
}

func TestCacheAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		real, model := newCache(capacity), &naiveCache{capacity: capacity}
		var holders []*holder
		pick := func() int { return rapid.IntRange(0, len(holders)-1).Draw(t, "holder") }
		t.Repeat(map[string]func(*rapid.T){
			"admit": func(t *rapid.T) {
				// Chains over a small alphabet, so that prefixes are shared.
				path := rapid.SliceOfN(rapid.IntRange(0, 1), 1, 6).Draw(t, "path")
				h := &holder{}
				var id blockID
				for _, step := range path {
					id = id*3 + blockID(step) + 1
					h.ids = append(h.ids, id)
				}
				hit := real.match(h.ids)
				h.next, h.reserved = hit, len(h.ids)-hit+rapid.IntRange(0, 2).Draw(t, "answer")
				h.held = slices.Clone(h.ids[:hit])
				ok := real.reserve(h.held, h.reserved)
				if want := model.reserve(h.held, h.reserved); ok != want {
					t.Fatalf("reserve(%v, %d) = %v, want %v", h.held, h.reserved, ok, want)
				}
				if ok {
					holders = append(holders, h)
				}
			},
			"publish": func(t *rapid.T) {
				if len(holders) == 0 {
					t.Skip("nobody")
				}
				h := holders[pick()]
				if h.next == len(h.ids) {
					t.Skip("complete")
				}
				id := h.ids[h.next]
				h.next++
				ok := real.publish(id)
				if want := model.publish(id); ok != want {
					t.Fatalf("publish(%d) = %v, want %v", id, ok, want)
				}
				if ok {
					h.held = append(h.held, id)
					h.reserved--
				}
			},
			"release": func(t *rapid.T) {
				if len(holders) == 0 {
					t.Skip("nobody")
				}
				i := pick()
				h := holders[i]
				real.release(h.held, h.reserved)
				model.release(h.held, h.reserved)
				holders = slices.Delete(holders, i, i+1)
			},
			"": func(t *rapid.T) { compareCaches(t, real, model) },
		})
	})
}

// compareCaches fails unless both caches hold the same blocks, free the same
// ones in the same order, and count alike.
func compareCaches(t *rapid.T, real *cache, model *naiveCache) {
	var free []blockID
	used := model.reserved
	for _, b := range model.blocks {
		if b.refs == 0 {
			free = append(free, b.id)
		} else {
			used++
		}
		if got := real.blocks[b.id]; got == nil || got.refs != b.refs {
			t.Fatalf("block %d is %+v, want %d references", b.id, got, b.refs)
		}
	}
	var got []blockID
	for b := real.free.next; b != &real.free; b = b.next {
		got = append(got, b.id)
	}
	if !slices.Equal(got, free) {
		t.Fatalf("free blocks %v, want %v", got, free)
	}
	if len(real.blocks) != len(model.blocks) || real.used() != used || used < 0 || used > real.capacity {
		t.Fatalf("%d blocks, %d used; want %d, %d of %d", len(real.blocks), real.used(), len(model.blocks), used, real.capacity)
	}
}

func TestTailOfAChainGoesFirst(t *testing.T) {
	c := newCache(4)
	chain := []blockID{1, 2, 3, 4}
	if !c.reserve(nil, 4) {
		t.Fatal("an empty cache refused")
	}
	for _, id := range chain {
		c.publish(id)
	}
	c.release(chain, 0)
	if !c.reserve(nil, 2) {
		t.Fatal("free blocks were not evicted")
	}
	if got := c.match(chain); got != 2 {
		t.Errorf("%d leading blocks are left, want 2", got)
	}
}
