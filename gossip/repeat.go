package gossip

import (
	"math/rand/v2"
	"time"
)

// News of this router are told four more times, after about 0.4, 1.2, 3.6 and 11 s, each at a random moment around that.
const (
	repeatFirst  = 400 * time.Millisecond
	repeatFactor = 3
	repeatLast   = 12 * time.Second
)

// repeats say when to tell news once more. memberlist's queue (v0.7.0, queueBroadcast) takes a message's id before it
// deletes the one that the message replaces, and the deletion of the last one begins ids anew; so the next but one gets the
// same id, and of two with the same id and length one is dropped. Without a repetition, the news of such a router
// would reach the others with the next exchange of everything, half a minute later.
type repeats struct {
	due  <-chan time.Time // nil: not any more
	next time.Duration
}

// begin starts over, after news.
func (r *repeats) begin() {
	r.next = repeatFirst
	r.wait()
}

// wait arms the next repetition, if there is one left.
func (r *repeats) wait() {
	if r.next > repeatLast {
		r.due = nil
		return
	}
	r.due = time.After(r.next/2 + rand.N(r.next)) // at random, so that those of several routers do not meet
	r.next *= repeatFactor
}
