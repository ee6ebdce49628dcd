package consensus

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// stream is raft's view of the network for one server. In raft's configuration a
// server's address is its id; where that server is now is looked up at each dial,
// so that all replicas may change address at once.
type stream struct {
	self     string
	connect  func(ctx context.Context, server string) (net.Conn, error) // dials and greets
	incoming chan net.Conn
	ctx      context.Context
	cancel   context.CancelFunc

	mu    sync.Mutex // guards the maps
	conns map[*raftConn]struct{}
	heard map[string]*atomic.Int64 // by server that was dialed: when it last answered, Unix nanoseconds
}

func newStream(ctx context.Context, self string, connect func(context.Context, string) (net.Conn, error)) *stream {
	s := &stream{
		self: self, connect: connect, incoming: make(chan net.Conn),
		conns: map[*raftConn]struct{}{}, heard: map[string]*atomic.Int64{},
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Accept waits for a connection that was greeted and admitted.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.incoming:
		return s.track(conn, nil)
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// deliver hands an admitted connection to raft, or closes it when the server ends.
func (s *stream) deliver(conn net.Conn) {
	select {
	case s.incoming <- conn:
	case <-s.ctx.Done():
		_ = conn.Close()
	}
}

// Dial connects to the server whose id is the address. To this server itself there is a way within the process.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(address) == s.self {
		near, far := net.Pipe()
		go s.deliver(far)
		return s.track(near, nil)
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	conn, err := s.connect(ctx, string(address))
	if err != nil {
		return nil, err
	}
	return s.track(conn, s.contact(string(address)))
}

// contact is the server's clock, set to now: it has just answered the greeting.
func (s *stream) contact(server string) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := s.heard[server]
	if clock == nil {
		clock = new(atomic.Int64)
		s.heard[server] = clock
	}
	clock.Store(time.Now().UnixNano())
	return clock
}

// contacts returns when each server that was ever dialed last answered anything.
func (s *stream) contacts() map[string]time.Time {
	s.mu.Lock()
	heard := maps.Clone(s.heard)
	s.mu.Unlock()
	out := make(map[string]time.Time, len(heard))
	for server, clock := range heard {
		out[server] = time.Unix(0, clock.Load())
	}
	return out
}

func (s *stream) track(conn net.Conn, clock *atomic.Int64) (net.Conn, error) {
	c := &raftConn{Conn: conn, stream: s, clock: clock}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if s.ctx.Err() != nil { // closed in between: Close may not have seen it
		return nil, fmt.Errorf("connect: %w", c.Close())
	}
	return c, nil
}

// Close ends the stream with all its connections: raft's transport leaves those that
// it accepted open, and their readers with them.
func (s *stream) Close() error {
	s.cancel()
	s.mu.Lock()
	conns := maps.Clone(s.conns)
	s.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
	return nil
}

// Addr is the server's id.
func (s *stream) Addr() net.Addr { return serverAddr(s.self) }

type serverAddr string

func (serverAddr) Network() string  { return "raft" }
func (a serverAddr) String() string { return string(a) }

// raftConn notes when its other end was last heard.
type raftConn struct {
	net.Conn
	stream *stream
	clock  *atomic.Int64 // nil on accepted connections
}

func (c *raftConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.clock != nil {
		c.clock.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *raftConn) Close() error {
	c.stream.mu.Lock()
	delete(c.stream.conns, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}
