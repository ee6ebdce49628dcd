package main

import (
	"container/heap"
	"time"
)

// clock is virtual time: what is to happen happens in order, and takes none.
type clock struct {
	now    time.Duration
	events events
	n      uint64
}

type event struct {
	at time.Duration
	n  uint64 // events of one time happen in the order in which they were set
	do func()
}

// after has do happen after d.
func (c *clock) after(d time.Duration, do func()) {
	c.n++
	heap.Push(&c.events, event{c.now + d, c.n, do})
}

// every has do happen again and again.
func (c *clock) every(d time.Duration, do func()) {
	c.after(d, func() {
		do()
		c.every(d, do)
	})
}

// run lets everything happen that does before end.
func (c *clock) run(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at < end {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

// wall is the time that routers are told.
func (c *clock) wall() time.Time { return time.Unix(1_000_000_000, 0).Add(c.now) }

type events []event

func (h events) Len() int { return len(h) }

func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}

func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *events) Push(x any) { *h = append(*h, x.(event)) }

func (h *events) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}
