// Package proxy carries one request to the backend that routing picked and
// streams the answer back. It owns the upstream HTTP/1.1 connections; see
// DESIGN.md for why they are not net/http's.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/routing"
)

// Dial opens a connection to a backend, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Deps are the parts of a node that a Proxy works with.
type Deps struct {
	Picker *routing.Picker
	Dial   Dial
	Log    *slog.Logger
	// Tracer makes one client span an attempt, and Propagator writes it into
	// the backend's request. Both nil: trace headers pass as the client sent them.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
}

// Proxy forwards requests. It is safe for concurrent use.
type Proxy struct {
	cfg    Config
	deps   Deps
	pools  pools
	queue  queue
	budget budget
	calls  sync.Pool // of *call, for their memory
}

// New makes a Proxy; it starts nothing. cfg must be valid.
func New(cfg Config, deps Deps) *Proxy {
	return &Proxy{
		cfg:    cfg,
		deps:   deps,
		pools:  pools{cfg: cfg, dial: deps.Dial, byID: map[poolKey]*pool{}},
		queue:  queue{limit: cfg.Queue.Length, lines: map[string]*line{}},
		calls:  sync.Pool{New: func() any { return new(call) }},
		budget: budget{ratio: cfg.Retry.Budget, floor: cfg.Retry.MinPerSecond, tokens: cfg.Retry.MinPerSecond},
	}
}

// Run closes connections that have been idle for too long, until ctx ends;
// then it closes all idle ones.
func (p *Proxy) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.pools.sweep(now)
		case <-ctx.Done():
			p.Close()
			return nil
		}
	}
}

// Close closes the idle connections; those in use are closed by their requests.
func (p *Proxy) Close() { p.pools.close() }

// Queued is how many requests wait for a slot now.
func (p *Proxy) Queued() int { return p.queue.length() }

// Serve sends r to a backend and its answer to a. Until it has called a.Begin
// it may try other backends, and it returns an error only if it never did:
// ErrClientGone, ErrQueueFull, ErrQueueTimeout, routing.ErrNoBackend, ErrBody,
// ErrTarget or an *UpstreamError. What goes wrong later is told by a.End and by
// Result.Broken.
func (p *Proxy) Serve(ctx context.Context, r *Request, a Answer) (Result, error) {
	c := p.calls.Get().(*call)
	defer c.free()
	now := time.Now()
	*c = call{Proxy: p, r: r, start: now, now: now, mark: now, tried: c.tried}
	if !r.Ready.IsZero() {
		c.mark = r.Ready
	}
	c.res = Result{Endpoint: r.Place.Endpoint(), Variant: r.Place.Variant(), BytesIn: int64(len(r.Body.Head))}
	p.budget.earn(c.start)
	err := c.run(ctx, a)
	if c.lease != nil {
		c.release()
	}
	c.res.Attempts = c.attempts
	c.res.Total = c.now.Sub(c.start)
	return c.res, err
}

// call is the state of one Serve.
type call struct {
	*Proxy
	r        *Request
	begun    bool // bytes of the body's Rest are gone, so it cannot be sent again
	start    time.Time
	now      time.Time // as it was when last looked at: that costs as much as a lock
	slot     routing.Lease
	lease    *routing.Lease // the slot, once it was given; it may have been released
	tried    []string
	attempts int
	ex       exchange // the latest
	reply    Reply
	mark     time.Time // up to here the time spent is accounted for
	res      Result
}

// free empties c, but for memory that the next call can use.
func (c *call) free() {
	p := c.Proxy
	*c = call{tried: c.tried[:0]}
	p.calls.Put(c)
}

// run is the loop over attempts.
func (c *call) run(ctx context.Context, a Answer) error {
	if err := checkTarget(c.r); err != nil {
		return err // before a backend could be blamed for it
	}
	if err := c.reserve(ctx); err != nil {
		return err
	}
	for {
		c.attempts++
		ex, err := c.attempt(ctx)
		if err == nil && !ex.retryable() {
			return c.relay(ctx, ex, a)
		}
		c.release()
		if ctx.Err() != nil {
			ex.abandon()
			return ErrClientGone
		}
		if c.another(err) {
			ex.abandon()
			continue
		}
		if err != nil {
			return err
		}
		return c.relay(ctx, ex, a) // every backend is busy: pass on what the last one said
	}
}

// another reserves a further backend for a retry. It reports false when the
// request may not be sent again or no other backend is left.
func (c *call) another(err error) bool {
	c.tried = append(c.tried, c.lease.Backend.ID)
	if c.attempts >= c.cfg.Retry.Attempts || c.begun || !c.mayRepeat(err) {
		return false
	}
	c.now = time.Now()
	return c.budget.spend(c.now) && c.pick(c.tried) == nil
}

// mayRepeat: a request that a backend may have begun to work on goes to
// another one only if the dialect allows it; an answered refusal always may.
func (c *call) mayRepeat(err error) bool {
	if up, ok := errors.AsType[*UpstreamError](err); ok {
		return up.Kind == Refused || c.r.Repeatable
	}
	return err == nil
}

// release gives the slot back and lets the next in line have it.
func (c *call) release() {
	c.lease.Release()
	c.queue.wake(c.res.Endpoint)
}

// reserve picks a backend, waiting in line while all of them are full.
func (c *call) reserve(ctx context.Context) error {
	if !c.queue.waiting(c.res.Endpoint) {
		err := c.pick(nil)
		if err == nil || !errors.Is(err, routing.ErrSaturated) {
			return err
		}
	}
	err := c.queue.wait(ctx, c.res.Endpoint, c.r.Tenant, c.cfg.Queue.Timeout, func() (bool, error) {
		c.now = time.Now()
		err := c.pick(nil)
		return err == nil, notSaturated(err)
	})
	c.now = time.Now()
	c.mark = c.now // waiting for a slot is not overhead
	return err
}

// pick reserves a backend that was not tried, if there is one now.
func (c *call) pick(tried []string) error {
	if err := c.deps.Picker.PickInto(&c.slot, &c.r.Place, tried, rand.Uint64(), c.now); err != nil {
		return err
	}
	c.lease = &c.slot
	if len(tried) == 0 {
		c.deps.Picker.Count(&c.r.Place, c.lease)
	}
	c.res.Backend, c.res.Decision = c.lease.Backend.ID, c.lease.Decision
	return nil
}

// notSaturated drops the one error that waiting can mend.
func notSaturated(err error) error {
	if errors.Is(err, routing.ErrSaturated) {
		return nil
	}
	return err
}
