//go:build linux && !race && (amd64 || arm64)

package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Conn is a TCP connection. Like any net.Conn, it is safe for concurrent use.
type Conn struct {
	net.Conn // not TCPConn, whose ways to copy would pass by what is here
	tcp      *net.TCPConn
	raw      syscall.RawConn
	in       input
	out      output
	readBy   deadline
	writeBy  deadline
}

// input is the read that is under way.
type input struct {
	mu  sync.Mutex         // guards what follows, also over the read: it is of one caller
	try func(uintptr) bool // input.read, made once
	p   []byte
	n   int
	err syscall.Errno
}

// output is the write that is under way.
type output struct {
	mu    sync.Mutex         // guards what follows, also over the write: pieces of two callers must not mix
	try   func(uintptr) bool // output.write, made once
	left  []syscall.Iovec    // in space, unless there are many pieces
	space [3]syscall.Iovec
	n     int
	err   syscall.Errno
}

func newConn(tc *net.TCPConn) net.Conn {
	raw, err := tc.SyscallConn()
	if err != nil {
		return tc // whose next call says why
	}
	c := &Conn{Conn: tc, tcp: tc, raw: raw}
	c.in.try, c.out.try = c.in.read, c.out.write
	c.readBy.set, c.writeBy.set = tc.SetReadDeadline, tc.SetWriteDeadline
	return c
}

// CloseWrite is net.TCPConn's.
func (c *Conn) CloseWrite() error { return c.tcp.CloseWrite() }

// SyscallConn is net.TCPConn's. A deadline that has passed may end what is done
// with it, though it was put off.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Read is net.Conn's.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.p, c.in.n, c.in.err = p, 0, 0
	err := c.raw.Read(c.in.try)
	for c.readBy.early(err) {
		err = c.raw.Read(c.in.try)
	}
	c.in.p = nil
	if err := c.failure("read", c.in.err, err); err != nil {
		return 0, err
	}
	if c.in.n == 0 {
		return 0, io.EOF
	}
	return c.in.n, nil
}

// Write is net.Conn's.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteAll(p) }

// WriteAll writes the pieces as if they were one, and returns how many bytes
// that was.
func (c *Conn) WriteAll(pieces ...[]byte) (int, error) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left, o.n, o.err = o.space[:0], 0, 0
	for _, p := range pieces {
		if len(p) > 0 {
			v := syscall.Iovec{Base: &p[0]}
			v.SetLen(len(p))
			o.left = append(o.left, v)
		}
	}
	err := c.raw.Write(o.try)
	for c.writeBy.early(err) {
		err = c.raw.Write(o.try)
	}
	clear(o.space[:]) // lets go of the pieces
	o.left = nil
	return o.n, c.failure("write", o.err, err)
}

// failure puts the error of a call, or that of the wait for it, in net's form.
func (c *Conn) failure(op string, call syscall.Errno, wait error) error {
	if call != 0 {
		return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, call)}
	}
	if failed, ok := errors.AsType[*net.OpError](wait); ok {
		failed.Op = op
	}
	return wait
}

// read reports false if there is nothing to read yet.
func (i *input) read(fd uintptr) bool {
	for {
		n, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&i.p[0])), uintptr(len(i.p)), 0, 0, 0)
		switch err {
		case 0:
			i.n = int(n)
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		default:
			i.err = err
		}
		return true
	}
}

// write reports false if there is no room for what is left.
func (o *output) write(fd uintptr) bool {
	for len(o.left) > 0 {
		n, err := o.send(fd)
		switch err {
		case 0:
			o.pass(int(n))
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			o.err = err
			return true
		}
	}
	return true
}

// send is one call. One for sockets alone costs less than a file's; the one for
// several pieces, sendmsg, needs a structure of its own besides, and writev none.
func (o *output) send(fd uintptr) (n uintptr, err syscall.Errno) {
	v := &o.left[0]
	if len(o.left) == 1 {
		n, _, err = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(v.Base)), uintptr(v.Len), syscall.MSG_NOSIGNAL, 0, 0)
		return n, err
	}
	n, _, err = syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(v)), uintptr(len(o.left)))
	return n, err
}

// pass notes that n bytes were taken.
func (o *output) pass(n int) {
	o.n += n
	for n > 0 {
		v := &o.left[0]
		size := int(v.Len)
		if n < size {
			v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
			v.SetLen(size - n)
			return
		}
		n -= size
		o.left = o.left[1:]
	}
}
