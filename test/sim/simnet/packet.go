package simnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// maxDatagram is UDP's limit over IPv4.
const maxDatagram = 65507

// packetConn is one port for datagrams.
type packetConn struct {
	host *Host
	key  netip.AddrPort
	addr *net.UDPAddr

	mu         sync.Mutex // guards all below
	queue      []datagram // by arrival
	closed     bool
	readLimit  time.Time
	writeLimit time.Time
	woken      chan struct{} // closed at the next change; nil as long as nobody waits
}

// datagram is on its way, or arrived and not read.
type datagram struct {
	at   time.Time
	from *net.UDPAddr
	data []byte
}

// Packets opens a port for datagrams; the address is as for Listen. What is sent is lost as the link and its faults say,
// what finds the queue full is dropped, and a delay that varies changes the order.
func (h *Host) Packets(ctx context.Context, network, address string) (net.PacketConn, error) {
	p, err := h.packetPort(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	return p, nil
}

func (h *Host) packetPort(ctx context.Context, network, address string) (*packetConn, error) {
	if network != "udp" && network != "udp4" {
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
	taken := func(port uint16) bool { _, ok := h.packets[netip.AddrPortFrom(ip, port)]; return ok }
	if port == 0 {
		port = h.freePort(taken)
	} else if taken(port) {
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	key := netip.AddrPortFrom(ip, port)
	p := &packetConn{host: h, key: key, addr: net.UDPAddrFromAddrPort(key)}
	h.packets[key] = p
	return p, nil
}

// port finds who reads datagrams to an address of this host.
func (h *Host) packetsAt(to netip.AddrPort) *packetConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.packets[to]; p != nil {
		return p
	}
	return h.packets[netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port())]
}

// WriteTo implements net.PacketConn. It never blocks and does not tell what is lost.
func (p *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, err := netip.ParseAddrPort(addr.String())
	if err == nil {
		err = p.sendable(len(b))
	}
	if err != nil {
		return 0, &net.OpError{Op: "write", Net: "udp", Source: p.addr, Addr: addr, Err: err}
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	target := p.host
	if !to.Addr().IsLoopback() {
		target = p.host.net.at(to.Addr())
	}
	if target != nil {
		p.send(target, to, b)
	}
	return len(b), nil
}

func (p *packetConn) sendable(size int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return net.ErrClosed
	case !p.writeLimit.IsZero() && !time.Now().Before(p.writeLimit):
		return os.ErrDeadlineExceeded
	case size > maxDatagram:
		return os.NewSyscallError("sendto", syscall.EMSGSIZE)
	default:
		return nil
	}
}

// send lets the link decide. Whether the link is whole is looked at when the datagram leaves.
func (p *packetConn) send(target *Host, to netip.AddrPort, b []byte) {
	now := time.Now()
	l := p.host.net.link(p.host, target)
	delay, lost := l.draw(datagrams)
	p.host.net.record(l, now, len(b))
	if lost || l.gates[datagrams].shutAt(now) {
		return
	}
	from := *p.addr
	if ip, ok := netip.AddrFromSlice(from.IP); ok && ip.IsUnspecified() {
		from.IP = p.host.IP().AsSlice()
	}
	at, _ := target.paused.pass(now.Add(delay)) // a pause has an end
	if port := target.packetsAt(to); port != nil {
		port.push(datagram{at: at, from: &from, data: slices.Clone(b)})
	}
}

// push adds a datagram where it belongs by its arrival, or drops it.
func (p *packetConn) push(d datagram) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.queue) >= p.host.net.cfg.Queue {
		return
	}
	i := len(p.queue)
	for i > 0 && d.at.Before(p.queue[i-1].at) {
		i--
	}
	p.queue = slices.Insert(p.queue, i, d)
	p.wakeUp()
}

// ReadFrom implements net.PacketConn. What does not fit into b is cut off.
func (p *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		d, w, err := p.tryRead()
		if err != nil {
			return 0, nil, &net.OpError{Op: "read", Net: "udp", Source: p.addr, Err: err}
		}
		if w == nil {
			return copy(b, d.data), d.from, nil
		}
		w.wait()
	}
}

func (p *packetConn) tryRead() (datagram, *waiting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.closed {
		return datagram{}, nil, net.ErrClosed
	}
	if !p.readLimit.IsZero() && !now.Before(p.readLimit) {
		return datagram{}, nil, os.ErrDeadlineExceeded
	}
	w := &waiting{until: p.readLimit}
	if len(p.queue) > 0 {
		d := p.queue[0]
		if !d.at.After(now) {
			p.queue[0] = datagram{}
			p.queue = p.queue[1:]
			return d, nil, nil
		}
		w.add(d.at, nil)
	}
	if p.woken == nil {
		p.woken = make(chan struct{})
	}
	w.woken = p.woken
	return datagram{}, w, nil
}

// wakeUp must be called with the lock.
func (p *packetConn) wakeUp() {
	if p.woken != nil {
		close(p.woken)
		p.woken = nil
	}
}

// Close implements net.PacketConn.
func (p *packetConn) Close() error {
	p.host.mu.Lock()
	if p.host.packets[p.key] == p {
		delete(p.host.packets, p.key)
	}
	p.host.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return &net.OpError{Op: "close", Net: "udp", Addr: p.addr, Err: net.ErrClosed}
	}
	p.closed, p.queue = true, nil
	p.wakeUp()
	return nil
}

// LocalAddr implements net.PacketConn.
func (p *packetConn) LocalAddr() net.Addr { return p.addr }

// SetDeadline implements net.PacketConn.
func (p *packetConn) SetDeadline(t time.Time) error { return p.limit(t, &p.readLimit, &p.writeLimit) }

// SetReadDeadline implements net.PacketConn.
func (p *packetConn) SetReadDeadline(t time.Time) error { return p.limit(t, &p.readLimit) }

// SetWriteDeadline implements net.PacketConn.
func (p *packetConn) SetWriteDeadline(t time.Time) error { return p.limit(t, &p.writeLimit) }

func (p *packetConn) limit(t time.Time, limits ...*time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range limits {
		*l = t
	}
	p.wakeUp()
	return nil
}
