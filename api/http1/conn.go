package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/routing/proxy/field"
	"github.com/warmring/warmring/routing/proxy/socket"
)

const (
	handshakeLimit = 10 * time.Second       // for a TLS handshake
	refuseLimit    = 5 * time.Second        // for writing a refusal
	lingerLimit    = 500 * time.Millisecond // for the client to read an answer that ends a connection
	freshLimit     = time.Second            // for a new connection's first request, at shutdown
	addedMost      = 64                     // fields of an answer whose memory is kept for the next
)

// phases of a connection.
const (
	fresh  int32 = iota // has not sent a request yet
	idle                // between two requests
	active              // in a request
	ended               // closed by a shutdown
)

// conn is a connection. But for what is said of single fields, it belongs to
// the goroutine that serves it.
type conn struct {
	server *Server
	raw    net.Conn // below TLS
	nc     net.Conn
	base   context.Context //nolint:containedctx // of all its requests
	remote string
	tls    *tls.ConnectionState // nil: clear text
	phase  atomic.Int32

	in    *bufio.Reader
	src   source
	watch watcher
	write writer

	asked  fields      // memory for the next request
	header http.Header // for the next answer
	added  field.List  // memory for its further fields
	served bool        // a request, at least
	given  bool        // handed to the HTTP/2 server
	unread bool        // a body may still be on its way, or somebody reading it
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, raw: nc, base: context.Background(), header: http.Header{}}
	if a := nc.LocalAddr(); a != nil {
		c.base = context.WithValue(c.base, http.LocalAddrContextKey, a)
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	nc = socket.New(nc)
	if s.tls != nil {
		nc = tls.Server(nc, s.tls)
	}
	c.nc = nc
	c.src.nc = nc
	c.write = writer{nc: nc, pool: &s.pool.join}
	c.write.plain, _ = nc.(*socket.Conn)
	c.watch = watcher{src: &c.src, delay: s.cfg.Watch, joined: make(chan struct{}, 1)}
	c.in = s.pool.reader()
	c.in.Reset(&c.src)
	return c
}

// serve serves the connection to its end.
func (c *conn) serve() {
	defer c.close()
	if !c.handshake() {
		return
	}
	for c.await() {
		if !c.served && c.speaksHTTP2() {
			buffered, _ := c.in.Peek(c.in.Buffered()) // cannot fail
			c.handOver(replay(buffered, c.nc))
			return
		}
		x, err := c.readRequest()
		if err != nil {
			c.refuse(err)
			return
		}
		if !c.exchange(x) || !c.rest() {
			return
		}
	}
}

// close ends the connection, unless it was handed over.
func (c *conn) close() {
	c.watch.stop()
	if !c.given {
		_ = c.nc.Close() // all that had to be sent was
	}
	if !c.unread { // else somebody may still read through it
		c.server.pool.putReader(c.in)
	}
	c.server.forget(c)
}

// limitReads sets a deadline; zero is none. On a closed connection it fails, as
// whatever follows does.
func (c *conn) limitReads(t time.Time) { _ = c.nc.SetReadDeadline(t) }

// limitWrites does the same for writes.
func (c *conn) limitWrites(t time.Time) { _ = c.nc.SetWriteDeadline(t) }

// handshake does TLS's, if there is TLS, and reports whether to go on.
func (c *conn) handshake() bool {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	limit := time.Now().Add(handshakeLimit)
	c.limitReads(limit)
	c.limitWrites(limit)
	if c.server.stopping() { // retire may have come before
		c.retire()
	}
	err := tc.HandshakeContext(c.base)
	if err != nil {
		c.server.log.Debug("TLS handshake failed", "remote", c.remote, "error", err)
		if clear, ok := errors.AsType[tls.RecordHeaderError](err); ok && clear.Conn != nil && looksLikeHTTP(clear.RecordHeader) {
			_, _ = io.WriteString(clear.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nthis port speaks HTTPS\n") // a courtesy
		}
		return false
	}
	c.limitWrites(time.Time{})
	state := tc.ConnectionState()
	c.tls = &state
	if state.NegotiatedProtocol == protoHTTP2 {
		c.handOver(tc)
		return false
	}
	return true
}

// looksLikeHTTP: the first bytes of a TLS record are a request's instead.
func looksLikeHTTP(record [5]byte) bool {
	return slices.Contains([]string{"GET /", "POST ", "HEAD ", "PUT /", "OPTIO"}, string(record[:]))
}

// await waits for a request's first byte.
func (c *conn) await() bool {
	if c.in.Buffered() == 0 {
		limit := c.server.cfg.IdleTimeout
		if !c.served {
			limit = c.server.cfg.ReadHeaderTimeout
		}
		c.limitReads(after(limit))
	}
	if c.server.stopping() { // retire may have come before
		c.retire()
	}
	if _, err := c.in.Peek(1); err != nil {
		return false
	}
	return c.phase.Swap(active) != ended
}

// rest makes the connection idle, if it may be used again.
func (c *conn) rest() bool {
	c.served = true
	c.limitWrites(time.Time{})
	if c.in.Size() != inSize {
		c.resize(inSize)
	}
	c.phase.Store(idle)
	return !c.server.stopping()
}

// retire ends the connection if it is idle, from any goroutine.
func (c *conn) retire() {
	switch {
	case c.phase.CompareAndSwap(idle, ended):
		c.limitReads(past())
	case c.phase.Load() == fresh:
		c.limitReads(time.Now().Add(freshLimit))
	}
}

// kill closes the connection and ends its request, from any goroutine.
func (c *conn) kill() {
	c.phase.Store(ended)
	_ = c.raw.Close() // whatever was under way is cut off
	c.watch.cancel()
}

// speaksHTTP2: the client has prior knowledge of HTTP/2 in clear text.
func (c *conn) speaksHTTP2() bool {
	if c.tls != nil || c.server.h2 == nil {
		return false
	}
	for n := 1; ; n = min(max(n+1, c.in.Buffered()), len(preface)) {
		got, err := c.in.Peek(n)
		if !strings.HasPrefix(preface, string(got)) {
			return false
		}
		if n == len(preface) || err != nil {
			return err == nil
		}
	}
}

func (c *conn) handOver(nc net.Conn) {
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return
	}
	c.given = c.server.h2 != nil && c.server.h2.give(nc)
}

// exchange has the handler serve a request, and reports whether the connection
// can take another one.
func (c *conn) exchange(x *exchange) bool {
	c.limitReads(time.Time{})
	c.watch.begin(&x.ctx)
	if c.phase.Load() == ended { // before kill could see the context
		x.ctx.cancel()
	}
	if x.body.src == nil {
		c.watch.arm(&x.ctx)
	}
	done := c.run(x)
	if done {
		x.finish()
	}
	c.watch.stop()
	x.ctx.cancel()
	if !done {
		c.unread = x.body.unread()
		return false
	}
	sent, again := x.err == nil, x.reusable()
	c.unread = !x.body.settle(again)
	if sent && (c.unread || !again && c.in.Buffered() > 0) {
		c.linger()
	}
	if !again || c.unread {
		return false
	}
	clear(x.header)
	x.asked.empty()
	c.asked, c.header = x.asked, x.header
	if cap(x.added) <= addedMost {
		c.added = x.added
	}
	return true
}

// run calls the handler, and reports whether it returned.
func (c *conn) run(x *exchange) (returned bool) {
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil && v != any(http.ErrAbortHandler) {
			c.server.log.Error("panic while serving a request", "remote", c.remote, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	c.handler(x).ServeHTTP(x, &x.r)
	return true
}

// handler is the server's own, but for what is the protocol's business.
func (c *conn) handler(x *exchange) http.Handler {
	switch {
	case x.r.RequestURI == "*" && x.r.Method == http.MethodOptions:
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	case x.refused:
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Connection"] = []string{"close"}
			w.WriteHeader(http.StatusExpectationFailed)
		})
	default:
		return c.server.cfg.Handler
	}
}

// linger lets the client read an answer that ends the connection: it would be
// lost, were the connection closed while the client still sends (RFC 9112,
// section 9.6).
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lingerLimit)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.nc) // ends with the client's end or the deadline
}

// resize gives the reader another size, and keeps what it has read.
func (c *conn) resize(size int) {
	rest, _ := c.in.Peek(c.in.Buffered()) // cannot fail
	rest = bytes.Clone(rest)
	c.server.pool.putReader(c.in)
	if size == inSize {
		c.in = c.server.pool.reader()
	} else {
		c.in = bufio.NewReaderSize(nil, size)
	}
	c.in.Reset(&c.src)
	if len(rest) > 0 {
		c.src.pending = append(rest, c.src.pending...)
		_, _ = c.in.Peek(min(len(rest), size)) // all of it is pending
	}
}
