package http1

import (
	"net"
	"sync"
	"time"
)

// past is a deadline that ends a read at once.
func past() time.Time { return time.Unix(1, 0) }

// deadline bounds the reads, or the writes, of a connection. It is set on the
// connection only when something is about to wait there: most requests are over
// without that, and setting one costs as much as a small allocation.
type deadline struct {
	set func(time.Time) error

	mu      sync.Mutex // guards what follows
	want    time.Time
	have    time.Time // what the connection was told
	waiting bool
}

// put sets the deadline; zero is none. It holds for a wait that is under way.
func (d *deadline) put(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if d.waiting {
		d.apply()
	}
}

// near is put, but may leave a deadline in force that ends up to an eighth of
// the time until t too early: for those that are moved with each request.
func (d *deadline) near(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if early := t.Sub(d.have); early >= 0 && early < time.Until(t)/8 {
		d.want = d.have
	}
	if d.waiting {
		d.apply()
	}
}

func (d *deadline) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = true
	d.apply()
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = false
}

func (d *deadline) apply() {
	if !d.want.Equal(d.have) {
		d.have = d.want
		_ = d.set(d.have) // fails on a closed connection, as what follows does
	}
}

// after is the time d from now, or none if d is 0.
func after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// source is what a connection's buffered reader reads from.
type source struct {
	nc       net.Conn
	deadline deadline
	pending  []byte // was read already, and comes first
	one      [1]byte
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.pending) == 0 {
		return s.fetch(p)
	}
	n := copy(p, s.pending)
	if s.pending = s.pending[n:]; len(s.pending) == 0 {
		s.pending = nil // lets go of a large one
	}
	return n, nil
}

// fetch reads from the connection itself.
func (s *source) fetch(p []byte) (int, error) {
	s.deadline.begin()
	defer s.deadline.end()
	return s.nc.Read(p)
}
