package modelserver

import "slices"

// blockID names a full block by its tokens and everything before them.
type blockID uint64

// cache is the pool of KV blocks of one engine. A block is reserved (held by a
// running request and not shareable yet), in use (published and referenced), or
// free (published, not referenced, reusable until it is evicted).
//
// It is not safe for concurrent use.
type cache struct {
	capacity int
	blocks   map[blockID]*block // published
	free     block              // ring of free blocks; free.next is the least recently used
	nfree    int
	reserved int
	evicted  int
}

// block is one published block.
type block struct {
	id         blockID
	refs       int
	prev, next *block // neighbours in the ring of free blocks, nil while in use
}

// newCache returns an empty pool of that many blocks.
func newCache(capacity int) *cache {
	c := &cache{capacity: capacity, blocks: make(map[blockID]*block)}
	c.free.prev, c.free.next = &c.free, &c.free
	return c
}

// match returns how many of the leading ids are published.
func (c *cache) match(ids []blockID) int {
	for i, id := range ids {
		if c.blocks[id] == nil {
			return i
		}
	}
	return len(ids)
}

// reserve references the hit blocks, which must be published, and sets need
// more aside, evicting free blocks as required. It changes nothing and returns
// false when even that leaves too little room.
func (c *cache) reserve(hit []blockID, need int) bool {
	revived := 0
	for _, id := range hit {
		if c.blocks[id].refs == 0 {
			revived++
		}
	}
	if c.used()+revived+need > c.capacity {
		return false
	}
	for _, id := range hit {
		b := c.blocks[id]
		if b.refs == 0 {
			c.unlink(b)
		}
		b.refs++
	}
	c.reserved += need
	for len(c.blocks)+c.reserved > c.capacity {
		oldest := c.free.next
		c.unlink(oldest)
		delete(c.blocks, oldest.id)
		c.evicted++
	}
	return true
}

// publish turns one reserved block into the shareable block id, referenced by
// its maker. It returns false when id is there already: the maker's copy then
// stays reserved, as in vLLM, which keeps such duplicates private.
func (c *cache) publish(id blockID) bool {
	if c.blocks[id] != nil {
		return false
	}
	c.blocks[id] = &block{id: id, refs: 1}
	c.reserved--
	return true
}

// release drops one reference to each of held and gives the reserved blocks
// back. Later blocks are freed first, so that a chain is evicted from its tail.
func (c *cache) release(held []blockID, reserved int) {
	c.reserved -= reserved
	for _, id := range slices.Backward(held) {
		b := c.blocks[id]
		b.refs--
		if b.refs == 0 {
			c.link(b)
		}
	}
}

// used counts the blocks that running requests hold.
func (c *cache) used() int { return len(c.blocks) - c.nfree + c.reserved }

// link makes b the most recently used free block.
func (c *cache) link(b *block) {
	b.prev, b.next = c.free.prev, &c.free
	b.prev.next, b.next.prev = b, b
	c.nfree++
}

// unlink takes b out of the ring of free blocks.
func (c *cache) unlink(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	c.nfree--
}
