package modelserver

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// door is the listener of a server that can be shut and opened again while
// http.Server keeps accepting from it. A shut TCP door has no listening socket,
// so that the kernel refuses; other kinds of listeners stay and connections are
// closed as soon as they are accepted.
type door struct {
	mu      sync.Mutex   // guards all below
	inner   net.Listener // nil before attach and while the socket is closed
	addr    net.Addr
	shut    bool
	closed  bool
	changed chan struct{} // closed and replaced at each change
}

// newDoor returns a door without a listener.
func newDoor() *door { return &door{changed: make(chan struct{})} }

// attach gives the door its listener.
func (d *door) attach(ln net.Listener) {
	d.mu.Lock()
	d.inner, d.addr = ln, ln.Addr()
	shut := d.shut
	d.signal()
	d.mu.Unlock()
	if shut {
		d.close(false)
	}
}

// signal wakes Accept. The caller holds mu.
func (d *door) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// set shuts or opens the door; dials are refused or queued once it returns.
func (d *door) set(shut bool) error {
	d.mu.Lock()
	was := d.shut
	d.shut = shut
	attached := d.addr != nil && !d.closed
	reopen := attached && was && !shut && d.inner == nil
	d.mu.Unlock()
	switch {
	case reopen:
		return d.reopen()
	case attached && shut && !was:
		d.close(false)
	}
	return nil
}

// reopen listens on the old address.
func (d *door) reopen() error {
	var config net.ListenConfig
	ln, err := config.Listen(context.Background(), d.addr.Network(), d.addr.String())
	if err != nil {
		return fmt.Errorf("modelserver: listen again: %w", err)
	}
	d.mu.Lock()
	late := d.closed || d.inner != nil
	if !late {
		d.inner = ln
		d.signal()
	}
	d.mu.Unlock()
	if late {
		return ln.Close()
	}
	return nil
}

// close closes the socket: of TCP to refuse, of any kind for good.
func (d *door) close(forGood bool) {
	d.mu.Lock()
	ln := d.inner
	if _, tcp := ln.(*net.TCPListener); !forGood && !tcp {
		ln = nil // only http.Server's last Close ends these
	} else {
		d.inner = nil
	}
	d.closed = d.closed || forGood
	d.signal()
	d.mu.Unlock()
	if ln != nil {
		_ = ln.Close() // nothing is lost with a listener
	}
}

// Accept returns the next connection, waiting while the door is shut.
func (d *door) Accept() (net.Conn, error) {
	for {
		d.mu.Lock()
		inner, closed, changed := d.inner, d.closed, d.changed
		d.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if inner == nil {
			<-changed
			continue
		}
		conn, err := inner.Accept()
		d.mu.Lock()
		same, shut := d.inner == inner, d.shut
		d.mu.Unlock()
		switch {
		case err == nil && shut:
			_ = conn.Close() // refused
		case err == nil:
			return conn, nil
		case same:
			return nil, err
		}
	}
}

// Close ends Accept for good.
func (d *door) Close() error {
	d.close(true)
	return nil
}

// Addr returns the address that the door was given.
func (d *door) Addr() net.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addr
}
