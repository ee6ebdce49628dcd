package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lookAgain is how often the first in line tries without having been woken: a
// slot can also appear through another replica's release, a new epoch or the end
// of an ejection.
const lookAgain = 100 * time.Millisecond

// queue holds the requests that wait for a slot: a line for each endpoint,
// in it a turn for each tenant, first come first served within a tenant.
type queue struct {
	limit int
	total atomic.Int64 // of all lines; most of the time 0, which needs no lock to see

	mu    sync.Mutex // guards the rest, and changes of total
	lines map[string]*line
}

type line struct {
	waiting map[string][]*waiter // by tenant
	turn    []string             // tenants that wait, whose turn is next first
	size    int
}

type waiter struct {
	tenant string
	wake   chan struct{} // holds one wake-up, so that waking never blocks
}

func (q *queue) length() int { return int(q.total.Load()) }

// waiting: there is a line for endpoint, which nobody may overtake.
func (q *queue) waiting(endpoint string) bool {
	if q.length() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[endpoint] != nil
}

// wake lets the next in line try. Whoever has given back a slot calls it: who
// stands in line by then has looked before, and who does not looks after.
func (q *queue) wake(endpoint string) {
	if q.length() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[endpoint]; l != nil {
		select {
		case l.waiting[l.turn[0]][0].wake <- struct{}{}:
		default: // it has been woken already
		}
	}
}

// wait stands in line until try reports that it got a slot or fails. Errors:
// ErrQueueFull, ErrQueueTimeout, ErrClientGone, or try's own.
func (q *queue) wait(ctx context.Context, endpoint, tenant string, most time.Duration, try func() (bool, error)) error {
	w := &waiter{tenant: tenant, wake: make(chan struct{}, 1)}
	if !q.join(endpoint, w) {
		return ErrQueueFull
	}
	defer q.leave(endpoint, w)
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		if q.first(endpoint, w) {
			if done, err := try(); done || err != nil {
				return err
			}
		}
		select {
		case <-w.wake:
		case <-again.C:
		case <-deadline.C:
			return ErrQueueTimeout
		case <-ctx.Done():
			return ErrClientGone
		}
	}
}

func (q *queue) join(endpoint string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length() >= q.limit {
		return false
	}
	l := q.lines[endpoint]
	if l == nil {
		l = &line{waiting: map[string][]*waiter{}}
		q.lines[endpoint] = l
	}
	if len(l.waiting[w.tenant]) == 0 {
		l.turn = append(l.turn, w.tenant)
	}
	l.waiting[w.tenant] = append(l.waiting[w.tenant], w)
	l.size++
	q.total.Add(1)
	return true
}

// first reports whether it is w's turn.
func (q *queue) first(endpoint string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[endpoint]
	return l.turn[0] == w.tenant && l.waiting[w.tenant][0] == w
}

// leave takes w out of the line, and wakes the one whose turn it is now: slots
// may have become free for more than one.
func (q *queue) leave(endpoint string, w *waiter) {
	q.mu.Lock()
	l := q.lines[endpoint]
	l.remove(w)
	q.total.Add(-1)
	if l.size == 0 {
		delete(q.lines, endpoint)
	}
	q.mu.Unlock()
	q.wake(endpoint)
}

// remove takes out w. If it was w's turn, the next turn is another tenant's.
func (l *line) remove(w *waiter) {
	l.size--
	mine := l.waiting[w.tenant]
	had := l.turn[0] == w.tenant && mine[0] == w
	if mine = without(mine, w); len(mine) == 0 {
		delete(l.waiting, w.tenant)
		l.turn = without(l.turn, w.tenant)
		return
	}
	l.waiting[w.tenant] = mine
	if had {
		l.turn = append(l.turn[1:], w.tenant)
	}
}

// without removes the first v of s, which holds it, in place.
func without[T comparable](s []T, v T) []T {
	for i := range s {
		if s[i] == v {
			return append(s[:i], s[i+1:]...)
		}
	}
	return s
}
