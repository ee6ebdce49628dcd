package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a stream.
type Conn struct {
	host          *Host
	peer          *Conn
	in, out       *link // from and to the peer's host
	local, remote *net.TCPAddr

	mu *sync.Mutex // of both ends; guards all below, here and in peer

	queue  []segment // on their way to this end, or arrived and not read
	unread int       // bytes in queue
	due    time.Time // of the last packet towards this end: nothing overtakes it

	closed    bool  // by Close
	finished  bool  // by CloseWrite or Close
	abortive  bool  // SetLinger(0): Close sends a reset
	dead      error // the host was killed
	told, met reset // what ends this end: a reset that the peer sent, and one that answers what arrived at no connection

	readLimit, writeLimit time.Time
	woken                 chan struct{} // closed at the next change; nil as long as nobody waits
}

// segment is a part of a stream. One without data is the end.
type segment struct {
	due  time.Time // if nothing is wrong with the link
	data []byte
}

// connect makes both ends of a stream. The ports are those of the dialler and of the listener.
func connect(from, to *Host, local, remote *net.TCPAddr) (client, server *Conn) {
	there, back := from.net.link(from, to), from.net.link(to, from)
	mu := new(sync.Mutex)
	client = &Conn{host: from, in: back, out: there, local: local, remote: remote, mu: mu}
	server = &Conn{host: to, in: there, out: back, local: remote, remote: local, mu: mu}
	client.peer, server.peer = server, client
	return client, server
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, w, err := c.tryRead(p)
		if w == nil {
			return n, c.wrap("read", err)
		}
		w.wait()
	}
}

// tryRead reads what is there, or says what to wait for.
func (c *Conn) tryRead(p []byte) (int, *waiting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.unusable(now, c.readLimit); err != nil {
		return 0, nil, err
	}
	if len(p) == 0 {
		return 0, nil, nil
	}
	w := waiting{until: c.readLimit}
	if len(c.queue) > 0 {
		at, opened := c.in.arrival(segments, c.queue[0].due)
		if opened == nil && !at.After(now) {
			n, err := c.take(p)
			return n, nil, err
		}
		w.add(at, opened)
	}
	if c.hasBeenReset(now, &w) {
		return 0, nil, os.NewSyscallError("read", syscall.ECONNRESET)
	}
	w.woken = c.waker()
	return 0, &w, nil
}

// take copies from the first segment, which has arrived. It must be called with the lock.
func (c *Conn) take(p []byte) (int, error) {
	head := &c.queue[0]
	if head.data == nil {
		return 0, io.EOF
	}
	n := copy(p, head.data)
	head.data = head.data[n:]
	if len(head.data) == 0 {
		c.queue[0] = segment{}
		c.queue = c.queue[1:]
	}
	wasFull := c.unread >= c.host.net.cfg.Window
	if c.unread -= n; wasFull {
		c.peer.wakeUp()
	}
	return n, nil
}

// Write implements net.Conn. It copies p.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for {
		n, w, err := c.tryWrite(p[written:])
		written += n
		if w == nil {
			return written, c.wrap("write", err)
		}
		w.wait()
	}
}

// tryWrite sends what the window takes, and says what to wait for if that is not all.
func (c *Conn) tryWrite(p []byte) (int, *waiting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.unusable(now, c.writeLimit); err != nil {
		return 0, nil, err
	}
	if c.finished {
		return 0, nil, os.NewSyscallError("write", syscall.EPIPE)
	}
	gone := c.peer.closed || c.peer.dead != nil
	if gone && len(p) > 0 {
		c.expectReset(now)
	}
	w := waiting{until: c.writeLimit}
	if c.hasBeenReset(now, &w) {
		return 0, nil, os.NewSyscallError("write", syscall.ECONNRESET)
	}
	n := min(len(p), c.host.net.cfg.Window-c.peer.unread)
	if n > 0 && !gone { // if it is gone, the bytes are accepted here and refused there
		c.send(now, append([]byte(nil), p[:n]...))
	}
	if n == len(p) {
		return n, nil, nil
	}
	w.woken = c.waker()
	return max(n, 0), &w, nil
}

// send puts a segment on its way to the peer. It must be called with the lock.
func (c *Conn) send(now time.Time, data []byte) {
	p := c.peer
	p.queue = append(p.queue, segment{due: c.sendDue(now), data: data})
	p.unread += len(data)
	p.wakeUp()
	c.host.net.record(c.out, now, len(data))
}

// sendDue is when a packet sent now would arrive at the peer. It must be called with the lock.
func (c *Conn) sendDue(now time.Time) time.Time {
	due := now.Add(c.out.delay(segments))
	if due.Before(c.peer.due) {
		due = c.peer.due
	}
	c.peer.due = due
	return due
}

// unusable is why this end neither reads nor writes, whatever the peer does. It must be called with the lock.
func (c *Conn) unusable(now, limit time.Time) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.dead != nil:
		return c.dead
	case !limit.IsZero() && !now.Before(limit):
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// wrap gives an error the form that the net package gives it. The end of a stream stays io.EOF.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.Reader's contract is about this very value
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.limit(t, &c.readLimit, &c.writeLimit) }

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.limit(t, &c.readLimit) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.limit(t, &c.writeLimit) }

func (c *Conn) limit(t time.Time, limits ...*time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("set", net.ErrClosed)
	}
	for _, l := range limits {
		*l = t
	}
	c.wakeUp()
	return nil
}
