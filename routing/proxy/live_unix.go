//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// liveness makes a check of nc that costs one system call and never waits:
// nothing to read means that the connection is open and quiet.
func liveness(nc net.Conn) func() bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return func() bool {
		quiet := false
		err := raw.Control(func(fd uintptr) { // not Read, which a deadline that has passed would end
			var b [1]byte
			_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		})
		return err == nil && quiet
	}
}
