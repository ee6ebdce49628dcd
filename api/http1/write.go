package http1

import (
	"net"
	"sync"

	"github.com/warmring/warmring/routing/proxy/socket"
)

// writer writes to a connection, each time in one call if that can be.
type writer struct {
	nc    net.Conn
	plain *socket.Conn // the same, where it takes several pieces in one call; else nil
	pool  *sync.Pool
	tail  []byte
}

// all writes a, b and end. It may append to a.
func (w *writer) all(a, b []byte, end string) error {
	if len(b) == 0 {
		return w.one(append(a, end...))
	}
	w.tail = append(w.tail[:0], end...)
	switch {
	case w.plain != nil:
		_, err := w.plain.WriteAll(a, b, w.tail)
		return err
	case len(a)+len(b)+len(end) <= joinSize:
		// TLS makes a record, and a system call, of each piece.
		j := slice(w.pool, joinSize)
		*j = append(append(append((*j)[:0], a...), b...), end...)
		err := w.one(*j)
		w.pool.Put(j)
		return err
	}
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
