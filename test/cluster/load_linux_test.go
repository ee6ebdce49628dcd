package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// load is clients that send one request after the other, each to the next router. A connection that is refused sends them
// to the router after it, as it does real clients.
type load struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex // guards all below
	counts map[*router]*count
}

// count is what became of the requests to one router.
type count struct {
	ok, refused int
	failed      []string
}

// load begins to send requests, about 100 a second to each of three routers.
func (g *ring) load() *load {
	ctx, stop := context.WithCancel(g.t.Context())
	l := &load{stop: stop, counts: map[*router]*count{}}
	for _, r := range g.routers {
		l.counts[r] = &count{}
	}
	for w := range 3 {
		l.done.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for i := w; ctx.Err() == nil; i++ {
				r := g.routers[i%len(g.routers)]
				l.note(r, g.one(context.WithoutCancel(ctx), r, i)) // what has begun is not broken off
				<-pace.C
			}
		})
	}
	g.t.Cleanup(l.end)
	return l
}

// one sends one request.
func (g *ring) one(ctx context.Context, r *router, i int) error {
	resp, text, err := post(ctx, g.client, r.url(), ask(fmt.Sprint("tenant ", i%50), fmt.Sprint("question ", i)))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

func (l *load) note(r *router, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[r]
	switch {
	case err == nil:
		c.ok++
	case errors.Is(err, syscall.ECONNREFUSED):
		c.refused++
	default:
		c.failed = append(c.failed, err.Error())
	}
}

// served is how many requests a router has answered.
func (l *load) served(r *router) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[r].ok
}

// flows waits until each of the routers has answered n more requests.
func (l *load) flows(t *testing.T, n int, among ...*router) {
	t.Helper()
	for _, r := range among {
		mark := l.served(r)
		within(t, patience, "requests through "+r.cfg.Router.Name, func() bool { return l.served(r) >= mark+n })
	}
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// faultless ends the load and fails the test if a router failed a request, or one of those refused a connection that were up
// all the time.
func (l *load) faultless(t *testing.T, up ...*router) {
	t.Helper()
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range up {
		if c := l.counts[r]; len(c.failed) > 0 || c.refused > 0 || c.ok == 0 {
			t.Errorf("%s: %d requests answered, %d refused, %d failed: %.3q", r.cfg.Router.Name, c.ok, c.refused, len(c.failed), c.failed)
		}
	}
}
