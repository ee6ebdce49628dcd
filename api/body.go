package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/routing/proxy"
)

// body reads a request's body within its limit; no piece of it may keep us
// waiting longer than the timeout.
type body struct {
	r       io.Reader
	control *http.ResponseController // the client's
	timeout time.Duration
	limit   int64
	read    int64
	done    bool      // the end was reached
	last    time.Time // when the latest piece had arrived; before, when the request had
}

// open reports whether part of the body may still be on its way.
func (b *body) open() bool { return b.r != nil && !b.done }

// Read returns io.EOF at the end, and else errTooLarge, errBodyTimeout,
// errBodyFraming or proxy.ErrClientGone.
func (b *body) Read(p []byte) (int, error) {
	if b.read > b.limit {
		return 0, errTooLarge
	}
	if room := b.limit - b.read + 1; int64(len(p)) > room {
		p = p[:room]
	}
	if b.read == 0 {
		b.limitTo(b.last.Add(b.timeout)) // the request has just come
	} else {
		b.arm()
	}
	n, err := b.r.Read(p)
	b.last = time.Now()
	b.read += int64(n)
	switch {
	case b.read > b.limit:
		return n - int(b.read-b.limit), errTooLarge
	case err == io.EOF:
		// The server goes on to read the connection, to see the client leave;
		// that must not time out.
		b.done = true
		b.limitTo(time.Time{})
		return n, err
	case err != nil:
		return n, bodyError(err)
	}
	return n, nil
}

// arm starts the wait for the next piece.
func (b *body) arm() { b.limitTo(time.Now().Add(b.timeout)) }

// limitTo sets the deadline for reads. Connections that know none, as in tests of
// a handler alone, go without.
func (b *body) limitTo(t time.Time) { _ = b.control.SetReadDeadline(t) }

// gone is net/http's error for the loss of an HTTP/2 connection, which has no
// exported type, and may come before the context ends.
const gone = "client disconnected"

// bodyError tells apart why a body cannot be read.
func bodyError(err error) error {
	var broken *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errBodyTimeout
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &broken), err.Error() == gone:
		return fmt.Errorf("%w: %w", proxy.ErrClientGone, err)
	default:
		return fmt.Errorf("%w: %w", errBodyFraming, err)
	}
}

// buffer holds the beginning of a body.
type buffer struct{ b []byte }

// buffers keeps buffers of a few sizes for reuse, so that a small body never
// holds on to a large buffer.
type buffers struct {
	classes [sizeClasses]sync.Pool
	window  int64        // what a request may hold at no charge
	limit   int64        // of held
	held    atomic.Int64 // bytes beyond the window, over all requests
}

const (
	smallest    = 4 << 10
	sizeClasses = 6 // 4 KiB, 16 KiB ... 4 MiB
)

// class is the smallest one that holds n bytes, or sizeClasses.
func class(n int) int {
	c := 0
	for size := smallest; size < n && c < sizeClasses; size *= 4 {
		c++
	}
	return c
}

// get returns a buffer for at least n bytes.
func (s *buffers) get(n int) *buffer {
	c := class(n)
	if c == sizeClasses {
		return &buffer{b: make([]byte, 0, n)}
	}
	if b, ok := s.classes[c].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, smallest<<(2*c))}
}

// put takes back what get returned.
func (s *buffers) put(b *buffer) {
	if c := class(cap(b.b)); c < sizeClasses && cap(b.b) == smallest<<(2*c) {
		b.b = b.b[:0]
		s.classes[c].Put(b)
	}
}

// grow returns a buffer of twice b's size with b's content, and puts b back.
func (s *buffers) grow(b *buffer) *buffer {
	bigger := s.get(2 * cap(b.b))
	bigger.b = append(bigger.b[:0], b.b...)
	s.put(b)
	return bigger
}

// charge books n further bytes beyond the window, or reports false.
func (s *buffers) charge(n int64) bool {
	if s.held.Add(n) > s.limit {
		s.held.Add(-n)
		return false
	}
	return true
}
