package http1

import (
	"context"
	"sync"
)

// requestContext is a request's context. It makes the real one when somebody
// asks for its end: handlers that never wait do without.
type requestContext struct {
	context.Context // the connection's: it has values and no end

	mu    sync.Mutex // guards what follows
	ended bool
	real  context.Context //nolint:containedctx // this one's other half
	stop  context.CancelFunc
}

// Done makes the real context, so that contexts derived from this one find it
// through Value, and hang on to it without a goroutine each.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.stop = context.WithCancel(c.Context)
		if c.ended {
			c.stop()
		}
	}
	return c.real.Done()
}

func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	}
	return nil
}

func (c *requestContext) Value(key any) any {
	c.mu.Lock()
	real := c.real
	c.mu.Unlock()
	if real == nil {
		return c.Context.Value(key)
	}
	return real.Value(key)
}

func (c *requestContext) cancel() {
	c.mu.Lock()
	c.ended = true
	stop := c.stop
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
}
