//go:build linux && !race && (amd64 || arm64)

package socket

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is one that is put off with nearly every call, as those of servers
// are. To tell net of it costs as much as a small write, so net is told of those
// that come sooner only; when one has passed that was put off meanwhile, the call
// that it has ended goes on.
type deadline struct {
	set func(time.Time) error // net's own

	mu   sync.Mutex // guards what follows
	want time.Time  // zero: none
	have time.Time  // the one that net knows
}

// SetDeadline is net.Conn's.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.readBy.move(t), c.writeBy.move(t))
}

// SetReadDeadline is net.Conn's.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.readBy.move(t) }

// SetWriteDeadline is net.Conn's.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writeBy.move(t) }

func (d *deadline) move(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if t.IsZero() || !d.have.IsZero() && !t.Before(d.have) {
		return nil
	}
	d.have = t
	return d.set(t)
}

// early reports that err, of a call, is of a deadline that has been put off. The
// call can go on then.
func (d *deadline) early(err error) bool {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.want.Equal(d.have) {
		return false
	}
	d.have = d.want
	return d.set(d.have) == nil
}
