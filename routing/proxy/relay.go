package proxy

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// relay passes the answer on: head and first bytes, then whatever each read
// brings. It always returns nil, because the answer has begun.
func (c *call) relay(ctx context.Context, ex *exchange, a Answer) error {
	r := &c.reply
	*r = ex.reply(c.lease)
	c.res.Status, c.res.Stream = r.Status, r.Stream
	c.res.FirstByte = ex.first.Sub(ex.sent)
	watched := ex.conn.head.fields.Get("Content-Encoding") == ""
	broken := a.Begin(r)
	if broken != nil {
		broken = ErrClientGone
	}
	c.lease.FirstToken(ex.first)
	for fresh := true; broken == nil; fresh = false {
		p := ex.land.bytes
		if watched {
			ex.land.end.write(p)
		}
		broken = c.pass(a, p)
		c.now = time.Now()
		if broken != nil {
			break
		}
		if fresh {
			c.res.Overhead += c.now.Sub(ex.first)
		}
		if ex.eof {
			break
		}
		broken = c.more(ctx, ex)
	}
	if watched {
		c.res.Usage = ex.land.end.usage()
		c.lease.Learn(c.res.Usage.Prompt, c.res.Usage.Completion, c.now)
	}
	c.finish(ex, a, broken)
	return nil
}

// pass sends p to the client.
func (c *call) pass(a Answer, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := a.Write(p)
	c.res.BytesOut += int64(n)
	c.res.Events++
	if err != nil {
		return ErrClientGone
	}
	return nil
}

// more waits for the next bytes of the body.
func (c *call) more(ctx context.Context, ex *exchange) error {
	limit := c.now.Add(c.cfg.Timeouts.Idle)
	if whole := ex.sent.Add(c.cfg.Timeouts.Stream); whole.Before(limit) {
		limit = whole
	}
	err := ex.conn.SetReadDeadline(limit)
	if err == nil {
		err = ex.land.read(ex.conn.head.body)
	}
	if err == nil || err == io.EOF { //nolint:errorlint // io.Reader's contract is the bare value
		ex.eof = err != nil
		return nil
	}
	c.now = time.Now()
	if ctx.Err() != nil {
		return ErrClientGone
	}
	return upstream(c.lease.Backend.ID, err)
}

// finish ends the answer and gives back the connection.
func (c *call) finish(ex *exchange, a Answer, broken error) {
	c.res.Broken = broken
	gone := broken == ErrClientGone //nolint:errorlint // set above, never wrapped
	if broken != nil && !gone {
		c.lease.Report(routing.Failed, c.now)
	}
	endSpan(ex.span, ex.conn.head.status, broken)
	trailer := ex.conn.head.trailers()
	ex.finish(c.now)
	if !gone {
		a.End(trailer, broken)
	}
}

// reply is the head of the answer as the client may see it.
func (ex *exchange) reply(lease *routing.Lease) Reply {
	h := &ex.conn.head
	return Reply{
		Status:  h.status,
		Fields:  h.fields,
		Stream:  strings.HasPrefix(h.fields.Get("Content-Type"), "text/event-stream"),
		Trailer: h.trailers(),
		Lease:   lease,
	}
}
