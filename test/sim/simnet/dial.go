package simnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// What a kernel does when nobody answers.
const (
	nobodyLimit = 3 * time.Second   // no host has the address: the network says so
	synLimit    = 127 * time.Second // a host has it and does not answer: Linux's limit with six repetitions
	synAgain    = time.Second       // between attempts when a listener's queue is full
)

// Dial connects to "host:port", where host is an address or a name. It waits across a cut link until ctx ends; a host that
// listens on nothing there refuses.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" {
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(network)}
	}
	host, port, err := splitPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	addrs, err := h.Lookup(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	for _, ip := range addrs {
		var c *Conn
		to := netip.AddrPortFrom(ip, port)
		if c, err = h.dial(ctx, to); err == nil {
			return c, nil
		}
		err = &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return nil, err
}

// dial is the handshake: there, a place in a listener's queue, and back.
func (h *Host) dial(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	down := h.dying()
	if down == nil {
		return nil, errDown
	}
	a := attempt{ctx: ctx, down: down, end: time.Now().Add(synLimit)}
	target := h
	if !to.Addr().IsLoopback() {
		target = h.net.at(to.Addr())
	}
	if target == nil {
		return nil, a.nobody()
	}
	there, back := h.net.link(h, target), h.net.link(target, h)
	for {
		if err := a.travel(there); err != nil {
			return nil, err
		}
		client, server, full := h.join(target, to)
		if full {
			if err := a.until(time.Now().Add(synAgain), nil); err != nil {
				return nil, err
			}
			continue
		}
		if err := a.travel(back); err != nil {
			if client != nil {
				_ = client.Close() // nobody has it
			}
			return nil, err
		}
		if server == nil {
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		return client, nil
	}
}

// join makes a connection and puts its other end into the listener's queue. Without a listener it makes none.
func (h *Host) join(target *Host, to netip.AddrPort) (client, server *Conn, full bool) {
	l := target.listening(to)
	if l == nil {
		return nil, nil, false
	}
	from := netip.AddrPortFrom(h.IP(), h.ephemeral())
	if to.Addr().IsLoopback() {
		from = netip.AddrPortFrom(to.Addr(), from.Port())
	}
	client, server = connect(h, target, net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to))
	if !h.keep(client) || !target.keep(server) {
		h.forget(client)
		return nil, nil, false
	}
	ok, closed := l.push(server)
	if !ok {
		h.forget(client)
		target.forget(server)
		return nil, nil, !closed
	}
	return client, server, false
}

// ephemeral is a port for the near end of a connection; it may be used by others to other places.
func (h *Host) ephemeral() uint16 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.freePort(func(uint16) bool { return false })
}

// attempt is what ends a dial early.
type attempt struct {
	ctx  context.Context
	down <-chan struct{} // the dialler's host
	end  time.Time
}

// travel returns when a packet of a handshake that leaves now has arrived.
func (a *attempt) travel(l *link) error {
	due := time.Now().Add(l.delay(handshakes))
	for {
		at, opened := l.arrival(handshakes, due)
		if opened == nil && !at.After(time.Now()) {
			return nil
		}
		if err := a.until(at, opened); err != nil {
			return err
		}
	}
}

// until waits for a moment or, if opened is not nil, for that.
func (a *attempt) until(at time.Time, opened <-chan struct{}) error {
	if opened != nil || at.After(a.end) {
		at = a.end
	}
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		if !time.Now().Before(a.end) {
			return os.NewSyscallError("connect", syscall.ETIMEDOUT)
		}
		return nil
	case <-opened:
		return nil
	case <-a.down:
		return errDown
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// nobody is the end of a dial to an address that no host has.
func (a *attempt) nobody() error {
	if err := a.until(time.Now().Add(nobodyLimit), nil); err != nil {
		return err
	}
	return os.NewSyscallError("connect", syscall.EHOSTUNREACH)
}
