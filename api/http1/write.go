package http1

import (
	"net"
	"sync"
)

// writer writes to a connection, each time in one call if that can be.
type writer struct {
	nc       net.Conn
	deadline deadline
	vectored bool // the connection takes several pieces in one call
	pool     *sync.Pool
	pieces   [3][]byte
	tail     []byte
	list     net.Buffers
}

// all writes a, b and end. It may append to a.
func (w *writer) all(a, b []byte, end string) error {
	w.deadline.begin()
	defer w.deadline.end()
	switch {
	case len(b) == 0:
		return w.one(append(a, end...))
	case w.vectored:
		return w.gather(a, b, end)
	case len(a)+len(b)+len(end) <= joinSize:
		// TLS makes a record, and a system call, of each piece.
		j := slice(w.pool, joinSize)
		*j = append(append(append((*j)[:0], a...), b...), end...)
		err := w.one(*j)
		w.pool.Put(j)
		return err
	}
	w.tail = append(w.tail[:0], end...)
	for _, p := range [...][]byte{a, b, w.tail} {
		if err := w.one(p); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) one(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.nc.Write(p)
	return err
}

// gather copies nothing.
func (w *writer) gather(a, b []byte, end string) error {
	w.list = w.pieces[:0]
	w.tail = append(w.tail[:0], end...)
	for _, p := range [...][]byte{a, b, w.tail} {
		if len(p) > 0 {
			w.list = append(w.list, p)
		}
	}
	_, err := w.list.WriteTo(w.nc)
	clear(w.pieces[:])
	return err
}
