package modelserver

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// conns follows the server's connections, closes those that idle too long, and
// waits for all at the end.
type conns struct {
	open sync.WaitGroup

	mu    sync.Mutex               // guards all below
	limit time.Duration            // how long a connection may idle; negative for ever
	idle  map[net.Conn]*time.Timer // without a request; the timer is nil unless the limit is over 0
}

// newConns returns an empty set without a limit.
func newConns() *conns {
	return &conns{limit: -1, idle: make(map[net.Conn]*time.Timer)}
}

// state is a http.Server.ConnState hook.
func (c *conns) state(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.open.Add(1)
		c.rest(conn, false)
	case http.StateIdle:
		c.rest(conn, true)
	case http.StateActive:
		c.forget(conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
		c.open.Done()
	}
}

// rest notes that conn has no request now. Without any time to idle it is
// closed before the next request can be read from it.
func (c *conns) rest(conn net.Conn, served bool) {
	if c.note(conn, served) == 0 {
		_ = conn.Close() // its own goroutine sees the error
	}
}

// note starts conn's timer, if it has served a request, and returns the limit: as
// in uvicorn, under vLLM, the time to keep a connection begins with an answer.
func (c *conns) note(conn net.Conn, served bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle[conn] = nil
	if served {
		c.idle[conn] = c.deadline(conn)
	}
	return c.limit
}

// deadline starts the timer that closes conn. The caller holds mu.
func (c *conns) deadline(conn net.Conn) *time.Timer {
	if c.limit <= 0 {
		return nil
	}
	return time.AfterFunc(c.limit, func() { _ = conn.Close() }) // its own goroutine sees the error
}

// forget stops conn's timer.
func (c *conns) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.idle[conn]; t != nil {
		t.Stop()
	}
	delete(c.idle, conn)
}

// setLimit changes how long connections may idle, also for those that do now:
// with 0 they are closed when it returns.
func (c *conns) setLimit(limit time.Duration) {
	for _, conn := range c.restart(limit) {
		if limit == 0 {
			_ = conn.Close() // its own goroutine sees the error
		}
	}
}

// restart starts the timers anew and returns the connections that idle.
func (c *conns) restart(limit time.Duration) []net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	idle := slices.Collect(maps.Keys(c.idle))
	for conn, t := range c.idle {
		if t != nil {
			t.Stop()
		}
		c.idle[conn] = c.deadline(conn)
	}
	return idle
}
