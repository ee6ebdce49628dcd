package main

import "slices"

// cache is the KV blocks of one model server. A block is reserved (of a running request, not shareable yet), in use
// (shareable, of running requests), or free (shareable, reused when room is needed, the least recently used first). Blocks
// are known by the script's ids, which are dense.
type cache struct {
	capacity int
	blocks   []block // by id; 0 is the head of the ring of free ones
	shared   int     // blocks in use or free
	free     int
	reserved int
}

type block struct {
	users      int32 // absent: 0; free: 1; else one more than the requests that use it
	prev, next uint32
}

func newCache(capacity int, ids uint32) *cache {
	return &cache{capacity: capacity, blocks: make([]block, ids)}
}

// match is how many of the first ids are held.
func (c *cache) match(ids []uint32) int {
	for i, id := range ids {
		if c.blocks[id].users == 0 {
			return i
		}
	}
	return len(ids)
}

// reserve takes blocks that are held, and need more. It does nothing and returns false where there is no room.
func (c *cache) reserve(held []uint32, need int) bool {
	woken := 0
	for _, id := range held {
		if c.blocks[id].users == 1 {
			woken++
		}
	}
	if c.shared-c.free+woken+c.reserved+need > c.capacity {
		return false
	}
	for _, id := range held {
		if c.blocks[id].users == 1 {
			c.unlink(id)
		}
		c.blocks[id].users++
	}
	c.reserved += need
	for c.shared+c.reserved > c.capacity {
		oldest := c.blocks[0].next
		c.unlink(oldest)
		c.blocks[oldest].users = 0
		c.shared--
	}
	return true
}

// share makes a reserved block shareable. It returns false where an equal one is: this one stays private then.
func (c *cache) share(id uint32) bool {
	if c.blocks[id].users > 0 {
		return false
	}
	c.blocks[id].users = 2
	c.shared++
	c.reserved--
	return true
}

// release gives up blocks in use, the last first, so that a prefix goes later than what follows it, and reserved ones.
func (c *cache) release(held []uint32, reserved int) {
	c.reserved -= reserved
	for _, id := range slices.Backward(held) {
		b := &c.blocks[id]
		if b.users--; b.users == 1 {
			c.link(id)
		}
	}
}

func (c *cache) link(id uint32) {
	last := c.blocks[0].prev
	c.blocks[id].prev, c.blocks[id].next = last, 0
	c.blocks[last].next, c.blocks[0].prev = id, id
	c.free++
}

func (c *cache) unlink(id uint32) {
	b := &c.blocks[id]
	c.blocks[b.prev].next, c.blocks[b.next].prev = b.next, b.prev
	c.free--
}
