package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config is what a Server is made from. Only Handler must be set.
type Config struct {
	Handler http.Handler
	// ReadHeaderTimeout bounds how long a request's head may take from its first
	// byte, and how long a new connection may keep silent. 0: no limit.
	ReadHeaderTimeout time.Duration
	// IdleTimeout bounds the wait for the next request. 0: no limit.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's head, request line and blank line
	// included. 0: http.DefaultMaxHeaderBytes.
	MaxHeaderBytes int
	// Watch is how long a request may take, from when its body was read, before
	// a goroutine looks out for the client leaving. 0: 2 ms.
	Watch time.Duration
	// TLS turns TLS on. Without NextProtos of its own, it offers HTTP/1.1, and
	// HTTP/2 if there is a server for it.
	TLS *tls.Config
	// HTTP2 gets the connections that speak HTTP/2: by ALPN, or in clear text by
	// prior knowledge, for which its Protocols must say UnencryptedHTTP2. It must
	// not serve anything else, and ends with this server. nil: they are refused.
	HTTP2 *http.Server
	// ErrorLog is told of panics, of failing accepts and, at debug level, of
	// failed TLS handshakes. nil: nobody is.
	ErrorLog *slog.Logger
}

// Server serves HTTP/1 connections. It is safe for concurrent use.
type Server struct {
	cfg  Config
	tls  *tls.Config
	log  *slog.Logger
	h2   *handover // nil: no HTTP/2
	pool buffers
	date atomic.Pointer[stamp]
	wg   sync.WaitGroup // one for each connection, and for the HTTP/2 server
	stop chan struct{}  // closed when draining begins

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	draining  bool
	quiet     chan struct{} // closed when draining and no connection is left
}

// New makes a server that is not started.
func New(cfg Config) *Server {
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = http.DefaultMaxHeaderBytes
	}
	if cfg.Watch <= 0 {
		cfg.Watch = 2 * time.Millisecond
	}
	s := &Server{
		cfg: cfg, log: cfg.ErrorLog,
		stop: make(chan struct{}), quiet: make(chan struct{}),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.TLS != nil {
		s.tls = cfg.TLS.Clone()
		if len(s.tls.NextProtos) == 0 {
			s.tls.NextProtos = protocols(cfg.HTTP2 != nil)
		}
	}
	return s
}

// protocols are ALPN's names (RFC 7301) in the order that we prefer.
func protocols(h2 bool) []string {
	if h2 {
		return []string{protoHTTP2, "http/1.1"}
	}
	return []string{"http/1.1"}
}

// Serve accepts connections from l, which it closes at the end. After Shutdown
// or Close it waits until no connection of the server is left, and returns
// http.ErrServerClosed. When l fails it returns that error at once; connections
// go on until Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	if !s.enter(l) {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.start(nc)
		case s.stopping():
			s.wg.Wait()
			return http.ErrServerClosed
		case passing(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accepting a connection failed", "error", err, "pause", pause)
			s.wait(pause)
		default:
			s.leave(l)
			return errors.Join(fmt.Errorf("accepting connections: %w", err), l.Close())
		}
	}
}

// passing: accept's errors that end when connections do.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// wait lasts for d, or until draining begins.
func (s *Server) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stop:
	}
}

// enter adds a listener, unless the server has ended, and starts the server for
// HTTP/2 with the first one.
func (s *Server) enter(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.listeners[l] = struct{}{}
	if s.cfg.HTTP2 != nil && s.h2 == nil {
		s.h2 = newHandover(l.Addr())
		s.wg.Go(func() { s.serveHTTP2(s.h2) })
	}
	return true
}

func (s *Server) leave(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) serveHTTP2(h *handover) {
	if err := s.cfg.HTTP2.Serve(h); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("serving HTTP/2 failed", "error", err)
	}
	_ = h.Close() // never fails
}

// start serves a connection in a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		_ = nc.Close() // nothing was sent yet
		return
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.wg.Go(c.serve)
}

// forget removes a connection.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.draining && len(s.conns) == 0 {
		close(s.quiet)
	}
}

func (s *Server) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// drain closes the listeners, once, and calls end for each connection.
func (s *Server) drain(end func(*conn)) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.stop)
		if len(s.conns) == 0 {
			close(s.quiet)
		}
	}
	conns, listeners := slices.Collect(maps.Keys(s.conns)), slices.Collect(maps.Keys(s.listeners))
	clear(s.listeners)
	s.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	for _, c := range conns {
		end(c)
	}
	return errors.Join(errs...)
}

// Shutdown closes the listeners and the idle connections, and waits until the
// others have finished their request, or until ctx ends, whose error it returns
// then. A connection that is new gets a second to send its request.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.drain((*conn).retire)
	if s.cfg.HTTP2 != nil {
		err = errors.Join(err, s.cfg.HTTP2.Shutdown(ctx))
	}
	select {
	case <-s.quiet:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Close closes the listeners and every connection, and ends the contexts of
// the requests on HTTP/1. It does not wait for handlers; Serve waits for those
// on HTTP/1, and nobody for those on HTTP/2.
func (s *Server) Close() error {
	err := s.drain((*conn).kill)
	if s.cfg.HTTP2 != nil {
		err = errors.Join(err, s.cfg.HTTP2.Close())
	}
	return err
}

// stamp is a Date header's value and the second it holds for.
type stamp struct {
	second int64
	text   string
}

// now returns the value of a Date header.
func (s *Server) now() string {
	now := time.Now()
	if d := s.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &stamp{second: now.Unix(), text: now.UTC().Format(http.TimeFormat)}
	s.date.Store(d)
	return d.text
}

const (
	// A request of 4 KB, the size of many prompts, with its head comes in one
	// read. Both together are what a connection holds on to while it streams.
	inSize  = 8 << 10
	outSize = 4 << 10
	// joinSize holds what the proxy passes on at once.
	joinSize = 40 << 10
)

// buffers keeps what connections read and write with.
type buffers struct {
	in   sync.Pool // of *bufio.Reader, inSize each
	out  sync.Pool // of *[]byte, outSize each
	join sync.Pool // of *[]byte, joinSize each
}

func (b *buffers) reader() *bufio.Reader {
	if r, ok := b.in.Get().(*bufio.Reader); ok {
		return r
	}
	return bufio.NewReaderSize(nil, inSize)
}

func (b *buffers) putReader(r *bufio.Reader) {
	if r.Size() == inSize {
		r.Reset(nil)
		b.in.Put(r)
	}
}

// slice returns an empty slice of the size from p.
func slice(p *sync.Pool, size int) *[]byte {
	if b, ok := p.Get().(*[]byte); ok {
		return b
	}
	return new(slices.Grow([]byte(nil), size))
}

// putOut takes back what slice returned, unless it has grown.
func (b *buffers) putOut(p *[]byte) {
	if cap(*p) == outSize {
		*p = (*p)[:0]
		b.out.Put(p)
	}
}
