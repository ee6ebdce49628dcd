package http1

import (
	"net"
	"time"
)

// past is a deadline that ends a read at once.
func past() time.Time { return time.Unix(1, 0) }

// after is the time d from now, or none if d is 0.
func after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// source is what a connection's buffered reader reads from.
type source struct {
	nc      net.Conn
	pending []byte // was read already, and comes first
	one     [1]byte
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.pending) == 0 {
		return s.nc.Read(p)
	}
	n := copy(p, s.pending)
	if s.pending = s.pending[n:]; len(s.pending) == 0 {
		s.pending = nil // lets go of a large one
	}
	return n, nil
}
