package http1

import (
	"errors"
	"os"
	"sync"
	"time"
)

// watcher looks out for the client leaving while a request is served. It reads
// the connection for that, so nothing else may, from when it is armed until it
// was stopped. A request that is over in time costs a timer and no goroutine.
type watcher struct {
	src   *source
	delay time.Duration
	timer *time.Timer // made when it is first needed

	mu       sync.Mutex      // guards what follows
	request  *requestContext // that is served; nil: none
	ctx      *requestContext // to be cancelled; nil: not armed
	reading  bool
	stopping bool          // somebody waits for joined
	joined   chan struct{} // gets one when a read that was stopped is over
}

// begin says that a request is served from now on.
func (w *watcher) begin(ctx *requestContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request = ctx
}

// arm makes it look out from the delay on, if the request is still served.
func (w *watcher) arm(ctx *requestContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.request != ctx {
		return
	}
	w.ctx = ctx
	if w.timer == nil {
		w.timer = time.AfterFunc(w.delay, w.look)
		return
	}
	w.timer.Reset(w.delay)
}

// look runs in the timer's goroutine. It may come late, when its request is
// over; if the next one is armed by then, it begins a little early for that.
func (w *watcher) look() {
	w.mu.Lock()
	ctx := w.ctx
	w.ctx = nil
	if ctx == nil || w.reading || len(w.src.pending) > 0 {
		w.mu.Unlock()
		return
	}
	w.reading = true
	_ = w.src.nc.SetReadDeadline(time.Time{}) // fails on a closed connection, as the read does
	w.mu.Unlock()

	n, err := w.src.nc.Read(w.src.one[:])
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		ctx.cancel()
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 { // the next request, ahead of our answer
		w.src.pending = w.src.one[:n]
	}
	w.reading = false
	if w.stopping {
		w.stopping = false
		w.joined <- struct{}{}
	}
}

// stop ends it, and returns when the connection is free to be read.
func (w *watcher) stop() {
	w.mu.Lock()
	w.request, w.ctx = nil, nil
	if w.timer != nil {
		w.timer.Stop()
	}
	reading := w.reading
	if reading {
		w.stopping = true
		_ = w.src.nc.SetReadDeadline(past()) // the same
	}
	w.mu.Unlock()
	if reading {
		<-w.joined
	}
}

// cancel ends the request that is served, from any goroutine.
func (w *watcher) cancel() {
	w.mu.Lock()
	ctx := w.request
	w.mu.Unlock()
	if ctx != nil {
		ctx.cancel()
	}
}
