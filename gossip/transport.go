package gossip

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	packetLimit  = 1400    // bytes of a packet that is sent: below the MTU of every usual network
	packetBuffer = 1 << 16 // bytes of the largest packet that can arrive
	packetsQueue = 64
	streamsQueue = 16
	errorPause   = 20 * time.Millisecond // after a failed read or accept, so that a lasting failure does not spin
)

// transport lets memberlist use what Deps gives. Nothing of it is left when Shutdown returns; streams that memberlist still
// has are closed.
type transport struct {
	deps    Deps
	packets chan *memberlist.Packet
	streams chan net.Conn
	closing context.Context
	cancel  context.CancelFunc
	loops   sync.WaitGroup
}

// newTransport starts to receive.
func newTransport(deps Deps) *transport {
	t := &transport{
		deps: deps, packets: make(chan *memberlist.Packet, packetsQueue), streams: make(chan net.Conn, streamsQueue),
	}
	t.closing, t.cancel = context.WithCancel(context.Background())
	t.loops.Go(t.receive)
	t.loops.Go(t.accept)
	return t
}

// FinalAdvertiseAddr is where others reach this router.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.deps.Advertise.Addr().AsSlice(), int(t.deps.Advertise.Port()), nil
}

// WriteTo sends one packet.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.deps.Packets.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// PacketCh gives the packets that arrive.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives the streams that arrive.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream. The deadline of its first write is timeout, too; memberlist sets the later ones.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.closing, timeout)
	defer cancel()
	conn, err := t.deps.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return t.bound(conn), nil
}

// Shutdown stops to receive.
func (t *transport) Shutdown() error {
	t.cancel()
	err := errors.Join(t.deps.Listener.Close(), t.deps.Packets.Close())
	t.loops.Wait()
	for {
		select {
		case conn := <-t.streams:
			_ = conn.Close() // nobody will read it
		default:
			return err
		}
	}
}

func (t *transport) receive() {
	buf := make([]byte, packetBuffer)
	for {
		n, from, err := t.deps.Packets.ReadFrom(buf)
		switch {
		case t.closing.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			t.wait(errorPause)
			continue
		}
		packet := &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: from, Timestamp: time.Now()}
		select {
		case t.packets <- packet:
		case <-t.closing.Done():
			return
		}
	}
}

func (t *transport) accept() {
	for {
		conn, err := t.deps.Listener.Accept()
		switch {
		case err == nil:
			select {
			case t.streams <- t.bound(conn):
			case <-t.closing.Done():
				_ = conn.Close()
				return
			}
		case t.closing.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			t.wait(errorPause)
		}
	}
}

func (t *transport) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.closing.Done():
	}
}

// bound makes conn end with the transport.
func (t *transport) bound(conn net.Conn) net.Conn {
	return &stream{Conn: conn, release: context.AfterFunc(t.closing, func() { _ = conn.Close() })}
}

type stream struct {
	net.Conn
	release func() bool
}

func (s *stream) Close() error {
	s.release()
	return s.Conn.Close()
}
