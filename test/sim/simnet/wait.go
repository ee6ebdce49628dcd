package simnet

import "time"

// waiting is what one blocked call waits for. It costs a timer only if it has a moment to wait for.
type waiting struct {
	until  time.Time // zero: for ever
	woken  <-chan struct{}
	opened [2]<-chan struct{} // gates
}

// add waits for an arrival, too, or for the gate in its way.
func (w *waiting) add(at time.Time, opened <-chan struct{}) {
	switch {
	case opened == nil:
		if w.until.IsZero() || at.Before(w.until) {
			w.until = at
		}
	case w.opened[0] == nil:
		w.opened[0] = opened
	default:
		w.opened[1] = opened
	}
}

// wait returns when something may have changed. No lock may be held.
func (w *waiting) wait() {
	var timer <-chan time.Time
	if !w.until.IsZero() {
		t := time.NewTimer(time.Until(w.until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-w.woken:
	case <-w.opened[0]:
	case <-w.opened[1]:
	case <-timer:
	}
}

// waker is closed at the next change of this end. It must be called with the lock.
func (c *Conn) waker() <-chan struct{} {
	if c.woken == nil {
		c.woken = make(chan struct{})
	}
	return c.woken
}

// wakeUp lets all blocked calls of this end look again. It must be called with the lock.
func (c *Conn) wakeUp() {
	if c.woken != nil {
		close(c.woken)
		c.woken = nil
	}
}
