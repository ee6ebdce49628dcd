package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy/socket"
)

// poolKey names one life of a backend: at a new address it is a new one, so
// connections to the old address are never used for it.
type poolKey struct {
	id          string
	incarnation uint64
	url         string
}

// pools holds the idle connections of all backends.
type pools struct {
	cfg  Config
	dial Dial

	mu     sync.Mutex // guards the rest
	byID   map[poolKey]*pool
	closed bool
}

// pool holds the idle connections to one backend; the one used last is on top,
// so that a quiet backend keeps few.
type pool struct {
	cfg  Config
	dial Dial
	addr string // host:port
	host string // the Host header
	base string // path before every request's path
	tls  *tls.Config
	bad  error // the URL cannot be used

	mu     sync.Mutex // guards the rest
	idle   []*conn
	used   time.Time // when a connection was last asked for
	closed bool
}

func (ps *pools) of(b *routing.Backend) *pool {
	key := poolKey{b.ID, b.Incarnation, b.URL}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byID[key]
	if p == nil {
		p = newPool(ps.cfg, ps.dial, b.URL)
		p.closed = ps.closed
		ps.byID[key] = p
	}
	return p
}

func newPool(cfg Config, dial Dial, raw string) *pool {
	p := &pool{cfg: cfg, dial: dial}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		p.bad = fmt.Errorf("backend URL %q is not http(s)://host:port", raw)
		return p
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if u.Scheme == "https" {
		if u.Port() == "" {
			port = "443"
		}
		p.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	p.addr, p.host = net.JoinHostPort(u.Hostname(), port), u.Host
	if u.Path != "/" {
		p.base = u.EscapedPath()
	}
	return p
}

// get returns an idle connection, or nil if there is none that can be used.
func (p *pool) get(now time.Time) *conn {
	for {
		c := p.pop(now)
		if c == nil {
			return nil
		}
		if now.Sub(c.since) < p.cfg.Pool.Idle && c.usable(now) {
			c.reused = true
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeouts.Connect)
	defer cancel()
	nc, err := p.dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	nc = socket.New(nc)
	if p.tls != nil {
		tc := tls.Client(nc, p.tls)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, nc.Close())
		}
		nc = tc
	}
	return newConn(nc, p), nil
}

func (p *pool) pop(now time.Time) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = now
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// put keeps c for the next request, or closes it when there are enough.
func (p *pool) put(c *conn, now time.Time) {
	c.since = now
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < p.cfg.Pool.MaxIdle
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		_ = c.Close()
	}
}

// expired takes out the connections that have been idle since before limit.
// unused: none is left, and none was asked for since then.
func (p *pool) expired(limit time.Time) (out []*conn, unused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && p.idle[n].since.Before(limit) {
		n++
	}
	out = slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	return out, len(p.idle) == 0 && p.used.Before(limit)
}

// sweep closes what has been idle for too long and forgets unused pools.
func (ps *pools) sweep(now time.Time) {
	var old []*conn
	ps.mu.Lock()
	for key, p := range ps.byID {
		out, unused := p.expired(now.Add(-ps.cfg.Pool.Idle))
		old = append(old, out...)
		if unused {
			delete(ps.byID, key) // connections in use return to it and are closed with it
			p.shut()
		}
	}
	ps.mu.Unlock()
	for _, c := range old {
		_ = c.Close()
	}
}

// shut makes the pool close whatever is put back from now on.
func (p *pool) shut() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.idle
	p.idle, p.closed = nil, true
	return out
}

func (ps *pools) close() {
	ps.mu.Lock()
	ps.closed = true
	var all []*conn
	for _, p := range ps.byID {
		all = append(all, p.shut()...)
	}
	ps.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}
