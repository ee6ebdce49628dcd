package simnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// backlog is how many connections may wait to be accepted; further ones are asked to try again.
const backlog = 4096

// listener accepts streams at one port of a host.
type listener struct {
	host *Host
	key  netip.AddrPort
	addr *net.TCPAddr

	mu     sync.Mutex // guards all below
	queue  []arrived
	closed bool
	woken  chan struct{} // closed at the next change; nil as long as nobody waits
}

// arrived is a connection that waits to be accepted.
type arrived struct {
	due  time.Time
	conn *Conn
}

// Listen opens a port for streams. The address is "host:port": without a host, or with 0.0.0.0, at all of this host's
// addresses; with 127.0.0.1 or localhost, for this host alone. Port 0 is a free one.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := h.listen(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	return l, nil
}

func (h *Host) listen(ctx context.Context, network, address string) (*listener, error) {
	if network != "tcp" && network != "tcp4" {
		return nil, net.UnknownNetworkError(network)
	}
	ip, port, err := h.parseLocal(ctx, address)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return nil, errDown
	}
	taken := func(port uint16) bool { _, ok := h.listeners[netip.AddrPortFrom(ip, port)]; return ok }
	if port == 0 {
		port = h.freePort(taken)
	} else if taken(port) {
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	key := netip.AddrPortFrom(ip, port)
	l := &listener{host: h, key: key, addr: net.TCPAddrFromAddrPort(key)}
	h.listeners[key] = l
	return l, nil
}

// parseLocal reads an address to listen on, which must be one of the host's.
func (h *Host) parseLocal(ctx context.Context, address string) (netip.Addr, uint16, error) {
	host, port, err := splitPort(address)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		return netip.IPv4Unspecified(), port, nil
	}
	addrs, err := h.Lookup(ctx, host)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	if ip := addrs[0]; ip.IsLoopback() || ip == h.IP() {
		return ip, port, nil
	}
	return netip.Addr{}, 0, os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
}

func splitPort(address string) (string, uint16, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w", text, err)
	}
	return host, uint16(port), nil
}

// listening finds who accepts at an address of this host.
func (h *Host) listening(to netip.AddrPort) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.listeners[to]; l != nil {
		return l
	}
	return h.listeners[netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port())]
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, w, err := l.tryAccept()
		if err != nil {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
		}
		if w == nil {
			return c, nil
		}
		w.wait()
	}
}

func (l *listener) tryAccept() (*Conn, *waiting, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, net.ErrClosed
	}
	w := new(waiting)
	if len(l.queue) > 0 {
		at, opened := l.host.paused.pass(l.queue[0].due)
		if opened == nil && !at.After(time.Now()) {
			c := l.queue[0].conn
			l.queue = l.queue[1:]
			return c, nil, nil
		}
		w.add(at, opened)
	}
	if l.woken == nil {
		l.woken = make(chan struct{})
	}
	w.woken = l.woken
	return nil, w, nil
}

// wakeUp must be called with the lock.
func (l *listener) wakeUp() {
	if l.woken != nil {
		close(l.woken)
		l.woken = nil
	}
}

// push adds a connection; false: the queue is full, or nobody listens any more.
func (l *listener) push(c *Conn) (ok, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) >= backlog {
		return false, l.closed
	}
	l.queue = append(l.queue, arrived{time.Now(), c})
	l.wakeUp()
	return true, false
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.wakeUp()
	l.mu.Unlock()
	l.host.mu.Lock()
	if l.host.listeners[l.key] == l {
		delete(l.host.listeners, l.key)
	}
	l.host.mu.Unlock()
	for _, a := range queue {
		a.conn.abort(net.ErrClosed)
		_ = a.conn.Close() // nobody has it
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }
