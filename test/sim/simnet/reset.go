package simnet

import (
	"net"
	"os"
	"syscall"
	"time"
)

// errDown is what a killed host's own calls get.
var errDown = os.NewSyscallError("simnet", syscall.ENETDOWN)

// reset is a reset that ends one end of a stream, sent or still to be sent.
type reset struct {
	due   time.Time     // zero: there is none
	after time.Duration // it is the answer to what is due at the peer at due, and takes this long; 0: it was sent by itself
}

// hasBeenReset says whether a reset has arrived; if one may, it adds it to what is waited for. It must be called with the
// lock.
func (c *Conn) hasBeenReset(now time.Time, w *waiting) bool {
	if !c.told.due.IsZero() && !c.in.gates[segments].shutAt(c.told.due) { // a reset is sent only once
		at, opened := c.in.arrival(segments, c.told.due)
		if opened == nil && !at.After(now) {
			return true
		}
		w.add(at, opened)
	}
	if c.met.due.IsZero() {
		return false
	}
	at, opened := c.out.arrival(segments, c.met.due)
	if opened == nil {
		at, opened = c.in.arrival(segments, at.Add(c.met.after))
	}
	if opened == nil && !at.After(now) {
		return true
	}
	w.add(at, opened)
	return false
}

// expectReset notes that what is sent now meets no connection there. It must be called with the lock.
func (c *Conn) expectReset(now time.Time) {
	if c.met.due.IsZero() {
		c.answerWithReset(c.sendDue(now))
	}
}

// answerWithReset notes that what is due at the peer at due meets no connection there. It must be called with the lock.
func (c *Conn) answerWithReset(due time.Time) {
	if c.met.due.IsZero() {
		c.met = reset{due: due, after: c.in.delay(segments)}
		c.wakeUp()
	}
}

// sendReset ends the peer one delay later. It must be called with the lock.
func (c *Conn) sendReset(now time.Time) {
	if c.peer.told.due.IsZero() {
		c.peer.told.due = c.sendDue(now)
		c.peer.wakeUp()
	}
}

// CloseWrite ends what this end sends; it can still read.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.unusable(time.Time{}, time.Time{}); err != nil {
		return c.wrap("close", err)
	}
	c.finish(time.Now())
	c.wakeUp()
	return nil
}

// finish must be called with the lock.
func (c *Conn) finish(now time.Time) {
	if c.finished {
		return
	}
	c.finished = true
	if !c.peer.closed && c.peer.dead == nil {
		c.send(now, nil)
	}
}

// SetLinger with 0 makes Close send a reset, as for a net.TCPConn; other values change nothing.
func (c *Conn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abortive = seconds == 0
	return nil
}

// Close implements net.Conn. The peer reads the end after what was sent before, or meets a reset if something that it sent
// was not read.
func (c *Conn) Close() error {
	c.host.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("close", net.ErrClosed)
	}
	c.closed = true
	c.wakeUp()
	if c.dead != nil {
		return nil
	}
	now := time.Now()
	arrived := c.arrived(now)
	if arrived > 0 && c.unread > 0 || c.abortive {
		c.finished = true
		c.sendReset(now)
	} else {
		c.finish(now)
	}
	c.drop(arrived)
	return nil
}

// arrived is how many segments have arrived and were not read. It must be called with the lock.
func (c *Conn) arrived(now time.Time) int {
	for i, s := range c.queue {
		if at, opened := c.in.arrival(segments, s.due); opened != nil || at.After(now) {
			return i
		}
	}
	return len(c.queue)
}

// drop forgets what was not read. All but the first segments are still on their way and will be answered by a reset. It must
// be called with the lock.
func (c *Conn) drop(arrived int) {
	if rest := c.queue[arrived:]; len(rest) > 0 && rest[0].data != nil {
		c.peer.answerWithReset(rest[0].due)
	}
	c.queue, c.unread = nil, 0
	c.peer.wakeUp() // it may wait for the window
}

// abort ends a connection of a killed host.
func (c *Conn) abort(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.dead != nil {
		return
	}
	now := time.Now()
	c.dead = why
	c.sendReset(now)
	c.drop(c.arrived(now))
	c.wakeUp()
}
