package http1

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// protoHTTP2 is ALPN's name, and preface what a client begins with (RFC 9113,
// sections 3.1 and 3.4).
const (
	protoHTTP2 = "h2"
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// handover is the listener of the HTTP/2 server: it accepts the connections
// that this server has found to be that one's.
type handover struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newHandover(addr net.Addr) *handover {
	return &handover{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// give waits until the connection is taken, or reports false.
func (h *handover) give(nc net.Conn) bool {
	select {
	case h.conns <- nc:
		return true
	case <-h.done:
		return false
	}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handover) Addr() net.Addr { return h.addr }

// replayed is a connection of which a part was read already.
type replayed struct {
	net.Conn
	r io.Reader
}

func replay(read []byte, nc net.Conn) net.Conn {
	return &replayed{Conn: nc, r: io.MultiReader(bytes.NewReader(bytes.Clone(read)), nc)}
}

func (r *replayed) Read(p []byte) (int, error) { return r.r.Read(p) }
