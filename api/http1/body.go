package http1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// What is read of a body that the handler has left, so that the connection can
// be used again: net/http's amount, but within a time.
const (
	drainMost  = 256 << 10
	drainLimit = time.Second
)

// states of a body.
const (
	open   int32 = iota
	whole        // was read to its end
	broken       // cannot be read to its end
)

// body is a request's. It may be read while the answer is written, even by a
// goroutine that outlives the handler, hence the atomics.
type body struct {
	x      *exchange
	src    io.Reader // fixed, or net/http's; both take care of concurrent reads; nil: no body
	fixed  fixed
	state  atomic.Int32
	closed atomic.Bool
	left   atomic.Int64 // of its length; at most 0 if that is not known
}

// Read returns http.ErrBodyReadAfterClose when the body was closed, or the
// request is over.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.read(p)
}

func (b *body) read(p []byte) (int, error) {
	if b.x.expects {
		b.x.sayContinue()
	}
	n, err := b.src.Read(p)
	b.left.Add(-int64(n))
	if err != nil {
		b.end(err)
	}
	return n, err
}

// end notes that nothing comes any more.
func (b *body) end(err error) {
	if !errors.Is(err, io.EOF) {
		b.state.CompareAndSwap(open, broken)
		if failed, ok := errors.AsType[net.Error](err); ok && !failed.Timeout() || errors.Is(err, io.ErrUnexpectedEOF) {
			b.x.ctx.cancel() // the client has left
		}
		return
	}
	if !b.state.CompareAndSwap(open, whole) {
		return
	}
	if b.x.parsed != nil {
		b.x.r.Trailer = b.x.parsed.Trailer
	}
	b.x.c.watch.arm(&b.x.ctx)
}

// Close makes further reads fail. What is left is dealt with after the handler.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// unread: the connection holds, or will hold, more of it.
func (b *body) unread() bool { return b.src != nil && b.state.Load() != whole }

// drain reads what is left, if that is little and soon there, and reports
// whether it was. The handler gets none of it any more.
func (b *body) drain() bool {
	if b.src == nil || b.state.Load() != open {
		return !b.unread()
	}
	if b.left.Load() >= drainMost {
		return false
	}
	b.closed.Store(true)
	b.x.c.limitReads(time.Now().Add(drainLimit))
	_, err := io.CopyN(io.Discard, remains{b}, drainMost)
	return errors.Is(err, io.EOF) && b.state.Load() == whole
}

// settle ends the body's life, and reports whether the connection is at its
// end. With read, it may read up to there.
func (b *body) settle(read bool) bool {
	b.closed.Store(true)
	if b.src == nil {
		return true
	}
	if read {
		return b.drain()
	}
	return !b.unread()
}

// remains reads on behind the handler's back.
type remains struct{ b *body }

func (r remains) Read(p []byte) (int, error) { return r.b.read(p) }
