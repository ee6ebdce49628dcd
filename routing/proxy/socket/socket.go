// Package socket makes the reads and writes of a TCP connection cheap, for
// servers and clients that do little else.
//
// The net package tells the scheduler of each system call, in case it blocks.
// On a socket none does: the socket does not block, and the runtime's poller
// waits. Not telling saves the bookkeeping and, on a busy machine, much more:
// after 20 us the runtime's monitor takes the processor away from a call that
// has not returned, which wakes one thread and later puts another to sleep. In
// return nothing else runs on that processor during the call, and the garbage
// collector waits for it: some 50 us for the largest.
package socket

import "net"

// New returns a *Conn for a TCP connection, and any other as it is.
func New(nc net.Conn) net.Conn {
	if tc, ok := nc.(*net.TCPConn); ok {
		return newConn(tc)
	}
	return nc
}
