package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/routing"
)

// exchange is a request that has been sent, and the beginning of its answer.
type exchange struct {
	conn  *conn
	land  *landing // holds the first bytes of the body
	eof   bool     // the body ends with them
	dirty bool     // the request was not sent whole, so the connection cannot be used again
	stop  func() bool
	sent  time.Time
	first time.Time // when the first byte of the body was read
	span  trace.Span
}

// attempt sends the request to the leased backend, and once more if a
// connection that had been idle turns out to be closed. What it learns of the
// backend's health it reports.
func (c *call) attempt(ctx context.Context) (*exchange, error) {
	p := c.pools.of(&c.lease.Backend)
	sctx, span := c.startSpan(ctx)
	more := c.inject(sctx)
	fresh := c.r.Body.Rest != nil
	for {
		ex, stale, err := c.exchange(ctx, p, fresh, more)
		switch {
		case err == nil:
			ex.span = span
			c.learn(ex)
			return ex, nil
		case ctx.Err() != nil:
			err = ErrClientGone
		case stale && !c.begun:
			fresh = true
			c.now = time.Now()
			continue
		default:
			err = c.blame(err)
		}
		c.now = time.Now()
		endSpan(span, 0, err)
		c.mark = c.now
		return nil, err
	}
}

// exchange does one request on one connection, up to the first byte of the
// answer's body. stale: the connection came from the pool and the backend had
// closed it.
func (c *call) exchange(ctx context.Context, p *pool, fresh bool, more extra) (ex *exchange, stale bool, err error) {
	cn, err := c.connection(ctx, p, fresh)
	if err != nil {
		return nil, false, &UpstreamError{Kind: Refused, Backend: c.lease.Backend.ID, Err: err}
	}
	cn.heard = false
	ex = &c.ex
	*ex = exchange{conn: cn, stop: afterFunc(ctx, cn.hangUp)}
	serr := c.send(ctx, cn, more)
	c.now = time.Now()
	ex.sent = c.now
	c.res.Overhead += ex.sent.Sub(c.mark)
	if serr != nil && !ended(serr) {
		ex.abandon()
		return nil, false, serr
	}
	// A backend that refuses a body answers before it has read all of it and
	// closes: then the write fails, and the answer is there to be read.
	ex.dirty = serr != nil
	if err := c.receive(ex); err != nil {
		stale = cn.reused && !cn.heard && ended(err)
		ex.abandon()
		return nil, stale, errors.Join(serr, err)
	}
	return ex, false, nil
}

// connection takes one from the pool, or makes one.
func (c *call) connection(ctx context.Context, p *pool, fresh bool) (*conn, error) {
	if p.bad != nil {
		return nil, p.bad
	}
	if !fresh {
		if cn := p.get(c.now); cn != nil {
			return cn, nil
		}
	}
	cn, err := p.connect(ctx)
	c.now = time.Now()
	return cn, err
}

// afterFunc is context.AfterFunc, by the context's own means where it has any:
// the general way costs as much as choosing the backend.
func afterFunc(ctx context.Context, f func()) (stop func() bool) {
	if own, ok := ctx.(interface {
		AfterFunc(f func()) (stop func() bool)
	}); ok {
		return own.AfterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// receive reads the head and the first bytes of the body.
func (c *call) receive(ex *exchange) error {
	if err := ex.conn.SetReadDeadline(ex.sent.Add(c.cfg.Timeouts.FirstByte)); err != nil {
		return err
	}
	if err := ex.conn.readHead(c.r.Method); err != nil {
		return err
	}
	ex.land = landings.Get().(*landing)
	for len(ex.land.bytes) == 0 && !ex.eof {
		err := ex.land.read(ex.conn.head.body)
		ex.eof = errors.Is(err, io.EOF)
		if err != nil && !ex.eof {
			return err
		}
	}
	c.now = time.Now()
	ex.first = c.now
	return nil
}

// retryable: the backend says that it cannot take the request now.
func (ex *exchange) retryable() bool {
	switch ex.conn.head.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// learn tells the picker what an answer's status says of the backend. 4xx is
// the client's doing; 429, and 503 with Retry-After, are load.
func (c *call) learn(ex *exchange) {
	now, status := ex.first, ex.conn.head.status
	if status < http.StatusTooManyRequests {
		c.lease.Report(routing.Succeeded, now)
		return
	}
	after, told := retryAfter(ex.conn.head.fields.Get("Retry-After"), now)
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && told:
		c.lease.Busy(now.Add(after))
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		c.lease.Report(routing.Failed, now)
	default:
		c.lease.Report(routing.Succeeded, now)
	}
}

// Bounds of a Retry-After that is believed.
const (
	defaultBusy = time.Second
	longestBusy = time.Minute
)

// retryAfter reads seconds or a date (RFC 9110 section 10.2.3).
func retryAfter(v string, now time.Time) (d time.Duration, told bool) {
	if v == "" {
		return defaultBusy, false
	}
	d = defaultBusy
	if s, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && s >= 0 {
		d = time.Duration(min(s, longestBusy.Seconds()) * float64(time.Second))
	} else if t, err := http.ParseTime(v); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), longestBusy), true
}

// blame classifies a failed exchange and tells the picker. What the client
// caused is nobody's fault.
func (c *call) blame(err error) error {
	if errors.Is(err, ErrBody) || errors.Is(err, ErrClientGone) {
		return err
	}
	up := upstream(c.lease.Backend.ID, err)
	switch now := time.Now(); up.Kind {
	case Refused:
		c.lease.Report(routing.Refused, now)
	case Timeout:
		c.lease.Report(routing.Stalled, now)
	case Reset, Protocol:
		c.lease.Report(routing.Failed, now)
	}
	return up
}

// abandon ends an exchange whose answer is not passed on. A nil one is over.
func (ex *exchange) abandon() {
	if ex == nil {
		return
	}
	if ex.span != nil {
		endSpan(ex.span, ex.conn.head.status, nil)
	}
	ex.finish(time.Now())
}

// finish gives back what the exchange holds: the connection to its pool if it
// can carry another request, else it is closed.
func (ex *exchange) finish(now time.Time) {
	if ex.land != nil {
		ex.land.free()
		ex.land = nil
	}
	alive := ex.stop()
	if alive && ex.eof && !ex.dirty && !ex.conn.head.close && ex.conn.br.Buffered() == 0 {
		ex.conn.pool.put(ex.conn, now)
		return
	}
	_ = ex.conn.Close()
}

// startSpan begins the client span of this attempt; both results are unchanged
// and nil when nothing is traced.
func (c *call) startSpan(ctx context.Context) (context.Context, trace.Span) {
	if c.deps.Tracer == nil {
		return ctx, nil
	}
	ctx, span := c.deps.Tracer.Start(ctx, "attempt", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("warmring.backend", c.lease.Backend.ID),
			attribute.String("warmring.decision", string(c.lease.Decision)),
			attribute.Int("warmring.attempt", c.attempts),
			attribute.String("http.request.method", c.r.Method),
			attribute.String("url.path", c.r.Path),
		)
	}
	return ctx, span
}

func (c *call) inject(ctx context.Context) extra {
	if c.deps.Propagator == nil {
		return nil
	}
	var e extra
	c.deps.Propagator.Inject(ctx, &e)
	return e
}

func endSpan(span trace.Span, status int, err error) {
	if span == nil {
		return
	}
	if span.IsRecording() {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}
