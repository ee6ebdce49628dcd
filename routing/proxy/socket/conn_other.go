//go:build !linux || race || !(amd64 || arm64)

package socket

import "net"

// Conn is a TCP connection. Here it is net's own: other systems have other
// calls, and the race detector has to see them, since it takes a read that
// follows a write for a synchronization.
type Conn struct{ *net.TCPConn }

func newConn(tc *net.TCPConn) net.Conn { return &Conn{tc} }

// WriteAll writes the pieces as if they were one, and returns how many bytes
// that was.
func (c *Conn) WriteAll(pieces ...[]byte) (int, error) {
	b := net.Buffers(pieces)
	n, err := b.WriteTo(c.TCPConn)
	return int(n), err
}
