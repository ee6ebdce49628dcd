package port

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// errStranger is a connection that is no router's. What wraps it says what it seems to be.
var errStranger = errors.New("not a router of this cluster")

// greet finds out what a new connection speaks and hands it to the listener of that protocol.
func (p *Port) greet(raw net.Conn) {
	conn := p.track(raw)
	if conn == nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit)) // a connection that cannot have one is broken, and shows it
	protocol, ready, err := p.identify(conn)
	switch {
	case errors.Is(err, io.EOF): // came and went without a word, as checks of an open port do
		_ = conn.Close()
		return
	case err != nil:
		_ = conn.Close()
		p.reject(raw.RemoteAddr(), err)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if !p.queues[protocol].offer(ready) {
		_ = ready.Close()
		p.reject(raw.RemoteAddr(), fmt.Errorf("too many connections wait to be accepted as %s", protocol.alpn()))
	}
}

// reject counts a connection that was closed, and tells about it unless the same host had it told within a minute.
func (p *Port) reject(remote net.Addr, err error) {
	defer p.rejected.Add(1)
	if p.closing.Err() == nil && p.refusals.tell(remote, time.Now()) {
		p.deps.Log.Warn("connection to the peer port refused", "remote", remote.String(), "error", err)
	}
}

// identify returns the connection to use further on.
func (p *Port) identify(conn net.Conn) (Protocol, net.Conn, error) {
	if p.keeper != nil {
		return p.identifyTLS(conn)
	}
	var first [markerLen]byte
	n, err := io.ReadFull(conn, first[:])
	protocol, ok := named(string(first[:]), Protocol.marker)
	switch {
	case n > 0 && !ok:
		return 0, nil, describe(first[:n])
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, nil, fmt.Errorf("%w: it said nothing for %s", errStranger, handshakeLimit)
	}
	return protocol, conn, err
}

func (p *Port) identifyTLS(conn net.Conn) (Protocol, net.Conn, error) {
	secure := tls.Server(conn, p.keeper.server())
	if err := secure.HandshakeContext(p.closing); err != nil {
		if other, ok := errors.AsType[tls.RecordHeaderError](err); ok {
			return 0, nil, describe(other.RecordHeader[:])
		}
		return 0, nil, advised(err)
	}
	protocol, ok := named(secure.ConnectionState().NegotiatedProtocol, Protocol.alpn)
	if !ok { // a client that offers no protocol at all
		return 0, nil, fmt.Errorf("%w: it names no protocol (ALPN)", errStranger)
	}
	return protocol, secure, nil
}

// describe says what a connection that begins with first seems to be.
func describe(first []byte) error {
	what := "it speaks no protocol of routers"
	switch {
	case bytes.HasPrefix(first, []byte{0x16, 3}): // a handshake record (RFC 8446, section 5.1)
		what = "it begins with a TLS handshake, and this router has no peer.cert_file"
	case bytes.HasPrefix(first, []byte(Raft.marker()[:5])):
		what = "it is a router without peer.cert_file, and this one has it"
	case bytes.HasPrefix(first, []byte("GET ")), bytes.HasPrefix(first, []byte("HEAD ")), bytes.HasPrefix(first, []byte("POST ")):
		what = "it speaks HTTP; requests, metrics and the admin API have ports of their own"
	}
	return fmt.Errorf("%w: %s", errStranger, what)
}

// Dial connects to another router's port, to speak protocol there. It fails with net.ErrClosed once the port is closed.
func (p *Port) Dial(ctx context.Context, protocol Protocol, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.closing, cancel)() //nolint:contextcheck // it ends with either
	raw, err := p.deps.Dial(ctx, "tcp", address)
	if err != nil {
		if p.closing.Err() != nil {
			return nil, net.ErrClosed
		}
		return nil, err
	}
	conn := p.track(raw)
	if conn == nil {
		return nil, net.ErrClosed
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit)) // as in greet
	ready, err := p.introduce(ctx, conn, protocol)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("peer port %s: %w", address, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return ready, nil
}

func (p *Port) introduce(ctx context.Context, conn net.Conn, protocol Protocol) (net.Conn, error) {
	if p.keeper == nil {
		_, err := io.WriteString(conn, protocol.marker())
		return conn, err
	}
	secure := tls.Client(conn, p.keeper.client(protocol))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, advised(err)
	}
	return secure, nil
}
