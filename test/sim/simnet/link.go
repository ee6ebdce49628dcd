package simnet

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// loopback is the delay of a host to itself: not zero, or a conversation with oneself could keep time from moving.
const loopback = 20 * time.Microsecond

// retransmission is what the loss of a segment adds to its delay: the least timeout of Linux's TCP.
const retransmission = 200 * time.Millisecond

// kind is what a gate of a link lets pass.
type kind int

const (
	handshakes kind = iota
	segments
	datagrams
	kinds
)

// link is the way from one host to another, in one direction.
type link struct {
	from, to *Host
	net      *Network
	seed     uint64
	gates    [kinds]gate
	sent     [kinds]atomic.Uint64 // counters for the draws

	mu   sync.Mutex // guards slow
	slow []*slowness
}

// slowness is what one fault adds to a link.
type slowness struct {
	delay time.Duration
	loss  float64
}

func newLink(n *Network, from, to *Host) *link {
	h := fnv.New64a()
	_, _ = h.Write([]byte(from.name + "\x00" + to.name)) // a hash does not fail
	return &link{from: from, to: to, net: n, seed: n.cfg.Seed ^ h.Sum64()}
}

// draw is the delay of the next packet of a kind and whether it is lost.
func (l *link) draw(k kind) (time.Duration, bool) {
	if l.from == l.to {
		return loopback, false
	}
	pcg := rand.NewPCG(l.seed+uint64(k), l.sent[k].Add(1))
	r := rand.New(pcg)
	delay := l.net.cfg.Latency
	if jitter := l.net.cfg.Jitter; jitter > 0 {
		delay += time.Duration(r.Int64N(int64(jitter)))
	}
	loss := l.net.cfg.Loss
	l.mu.Lock()
	for _, s := range l.slow {
		delay += s.delay
		loss = 1 - (1-loss)*(1-s.loss)
	}
	l.mu.Unlock()
	return delay, r.Float64() < loss
}

// delay is how long the next packet of a stream takes. It is not lost but sent again.
func (l *link) delay(k kind) time.Duration {
	d, lost := l.draw(k)
	if lost {
		d += retransmission
	}
	return d
}

// arrival is when that arrives which would at due if nothing were wrong; the channel is not nil if this is not known yet.
func (l *link) arrival(k kind, due time.Time) (time.Time, <-chan struct{}) {
	at, opened := l.gates[k].pass(due)
	if opened != nil {
		return at, opened
	}
	if at.After(due) { // sent again when the link was whole
		at = at.Add(l.net.cfg.Latency)
	}
	if k == handshakes { // the kernel answers for a process that does not run
		return at, nil
	}
	return l.to.paused.pass(at)
}

func (l *link) setSlow(s *slowness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = append(l.slow, s)
}

func (l *link) dropSlow(s *slowness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = slices.DeleteFunc(l.slow, func(x *slowness) bool { return x == s })
}
