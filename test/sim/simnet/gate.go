package simnet

import (
	"sync"
	"time"
)

// gate remembers when something could not pass. What is due while it is shut passes when it opens, so an arrival can be
// computed at any later moment and nothing has to be moved when a link is cut.
type gate struct {
	mu     sync.Mutex // guards all below
	depth  int        // faults that hold it shut
	shut   []span     // in order; the last one has no end while depth > 0
	opened chan struct{}
}

// span is a time during which nothing passed; to is zero as long as it lasts.
type span struct{ from, to time.Time }

func (s span) holds(t time.Time) bool { return !t.Before(s.from) && (s.to.IsZero() || t.Before(s.to)) }

// close shuts the gate until open was called as often.
func (g *gate) close(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.depth++; g.depth == 1 {
		g.shut = append(g.shut, span{from: now})
	}
}

func (g *gate) open(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.depth--; g.depth > 0 {
		return
	}
	g.shut[len(g.shut)-1].to = now
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// hold shuts the gate for d. It is not to be mixed with close.
func (g *gate) hold(now time.Time, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = append(g.shut, span{from: now, to: now.Add(d)})
}

// pass is when that comes through which is due at t. If this depends on an opening, the channel is closed then.
func (g *gate) pass(t time.Time) (time.Time, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.shut {
		if !s.holds(t) {
			continue
		}
		if s.to.IsZero() {
			if g.opened == nil {
				g.opened = make(chan struct{})
			}
			return t, g.opened
		}
		t = s.to
	}
	return t, nil
}

// shutAt says whether the gate was shut at t.
func (g *gate) shutAt(t time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.shut {
		if s.holds(t) {
			return true
		}
	}
	return false
}
