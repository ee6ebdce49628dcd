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
	hook  func()          // to be called at the end; nil: nothing
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

// AfterFunc has f called when the request's client leaves, unless stop comes
// before that, which stop reports. It costs a fraction of context.AfterFunc,
// since no real context is needed. f must not block.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	first := !c.ended && c.hook == nil
	if first {
		c.hook = f
	}
	c.mu.Unlock()
	if !first {
		return context.AfterFunc(c, f)
	}
	return c.unhook
}

func (c *requestContext) unhook() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	hooked := c.hook != nil
	c.hook = nil
	return hooked
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
	stop, hook := c.stop, c.hook
	c.hook = nil
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	if hook != nil { // last: whoever it stops asks Err for the reason
		hook()
	}
}
