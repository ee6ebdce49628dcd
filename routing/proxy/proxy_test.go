package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
)

func TestPassesRequestAndAnswer(t *testing.T) {
	var got *http.Request
	b := serveScript(t, func(_ int, c net.Conn, r *http.Request, _ []byte) bool {
		got = r
		return reply(c, http.StatusTeapot, "X-Limit: 3\r\nX-Limit: 4\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n", "short and stout")
	})
	r := newRig(t, []*backend{b})
	req := r.request("hello")
	req.Path = "/v1/x%2Fy?a=1&a=2"
	req.Header.Set("Connection", "close, X-Mine")
	req.Header.Set("X-Mine", "stays")
	req.Header.Set("Expect", "100-continue")
	a := &answer{}
	res, err := r.Serve(t.Context(), req, a)
	if err != nil {
		t.Fatal(err)
	}
	if got.RequestURI != "/v1/x%2Fy?a=1&a=2" || got.Host != b.addr || got.ContentLength != 5 {
		t.Errorf("backend was asked for %s of %s with %d bytes", got.RequestURI, got.Host, got.ContentLength)
	}
	if diff := cmp.Diff(http.Header{"Content-Type": {"application/json"}, "X-Custom": {"a", "b"}, "Content-Length": {"5"}}, got.Header); diff != "" {
		t.Errorf("headers at the backend (-want +got):\n%s", diff)
	}
	head := http.Header{}
	a.head.Fields.AddTo(head)
	if diff := cmp.Diff(http.Header{"X-Limit": {"3", "4"}, "Content-Length": {"15"}}, head); diff != "" {
		t.Errorf("headers at the client (-want +got):\n%s", diff)
	}
	if a.head.Status != http.StatusTeapot || a.text() != "short and stout" || a.ended != 1 || a.broken != nil {
		t.Errorf("answer is %+v", a)
	}
	if res.Status != http.StatusTeapot || res.Backend != "b0" || res.Attempts != 1 || res.BytesIn != 5 || res.BytesOut != 15 {
		t.Errorf("result is %+v", res)
	}
	r.atRest()
}

func TestTrailersAndInterimAnswers(t *testing.T) {
	b := serveScript(t, func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
		_, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 42\r\n\r\n")
		return err == nil
	})
	r := newRig(t, []*backend{b})
	a := &trailing{}
	if _, err := r.Serve(t.Context(), r.request("x"), a); err != nil {
		t.Fatal(err)
	}
	if a.text() != "hi" || a.trailer.Get("X-Sum") != "42" {
		t.Errorf("body %q, trailer %v", a.text(), a.trailer)
	}
}

type trailing struct {
	answer
	trailer http.Header
}

func (a *trailing) End(h http.Header, err error) { a.trailer = h; a.answer.End(h, err) }

// Events pass one by one: each is written before the next is sent.
func TestEventsPassOneByOne(t *testing.T) {
	seen := make(chan string, 1)
	b := serveScript(t, func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
		startSSE(c)
		for i := range 20 {
			ev := fmt.Sprintf("data: %d\n\n", i)
			chunk(c, ev)
			if got := <-seen; got != ev {
				t.Errorf("client got %q after %q was sent", got, ev)
			}
		}
		return chunk(c, "")
	})
	r := newRig(t, []*backend{b})
	a := &answer{onData: func(p []byte) error { seen <- string(p); return nil }}
	res, err := r.Serve(t.Context(), r.request("x"), a)
	if err != nil || res.Events != 20 || !res.Stream || a.broken != nil {
		t.Errorf("%+v, %v, broken %v", res, err, a.broken)
	}
}

// Scenario 33: a backend that closes after every answer, without saying so,
// never fails a request.
func TestKeepAliveRace(t *testing.T) {
	b := serveScript(t, func(n int, c net.Conn, r *http.Request, body []byte) bool {
		ok(n, c, r, body)
		return n%3 != 0
	})
	r := newRig(t, []*backend{b})
	for i := range 2000 {
		if _, res, err := r.serve(t.Context(), fmt.Sprint(i)); err != nil || res.Attempts != 1 {
			t.Fatalf("request %d: %v after %d attempts", i, err, res.Attempts)
		}
	}
	r.atRest()
}

func TestConnectionsAreReused(t *testing.T) {
	b := serveScript(t, ok)
	r := newRig(t, []*backend{b})
	for range 100 {
		if _, _, err := r.serve(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.conns(); n != 1 {
		t.Errorf("%d connections; want 1", n)
	}
	r.pools.sweep(time.Now().Add(2 * r.cfg.Pool.Idle))
	eventually(t, time.Second, "idle connection closed", func() bool { return b.conns() == 0 })
	if len(r.pools.byID) != 0 {
		t.Errorf("%d pools are left", len(r.pools.byID))
	}
}

// Scenario 38: 4xx is no failure, 429 is load: neither ejects.
func TestClientErrorsAndBusyDoNotEject(t *testing.T) {
	status := map[string]int{"bad": 400, "busy": 429}
	s := func(_ int, c net.Conn, _ *http.Request, body []byte) bool {
		return reply(c, status[string(body)], "Retry-After: 7\r\n", "no")
	}
	b0, b1 := serveScript(t, s), serveScript(t, s)
	r := newRig(t, []*backend{b0, b1})
	for range 20 {
		if a, res, err := r.serve(t.Context(), "bad"); err != nil || a.head.Status != 400 || res.Attempts != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	a, res, err := r.serve(t.Context(), "busy")
	if err != nil || a.head.Status != 429 || a.head.Fields.Get("Retry-After") != "7" || res.Attempts != 2 {
		t.Fatalf("%+v, %v: the last refusal is passed on when all refuse", res, err)
	}
	for _, l := range r.picker.Snapshot(time.Now()) {
		if !l.EjectedUntil.IsZero() {
			t.Errorf("%s is ejected", l.Backend.ID)
		}
		if l.BusyUntil.IsZero() {
			t.Errorf("%s is not marked as busy", l.Backend.ID)
		}
	}
	r.atRest()
}

// Scenario 37: a budget keeps retries from becoming a storm.
func TestRetryBudget(t *testing.T) {
	die := func(int, net.Conn, *http.Request, []byte) bool { return false }
	b0, b1 := serveScript(t, die), serveScript(t, die)
	r := newRig(t, []*backend{b0, b1}, func(c *Config, _ *routing.Endpoint, _ *routing.Backend) {
		c.Retry = Retry{Attempts: 3, Budget: 0.1, MinPerSecond: 0}
	})
	const requests = 200
	for range requests {
		_, _, err := r.serve(t.Context(), "x")
		if err == nil {
			t.Fatal("no error")
		}
	}
	if n := b0.count() + b1.count(); n > requests*11/10+1 {
		t.Errorf("%d requests were sent for %d; the budget allows a tenth more", n, requests)
	}
	r.atRest()
}

// Scenario 29: the backend sees the client leave within 100 ms, at any stage.
func TestClientLeaves(t *testing.T) {
	for _, stage := range []string{"before the head", "in the body"} {
		t.Run(stage, func(t *testing.T) {
			reached, left := make(chan bool), make(chan time.Time, 1)
			b := serveScript(t, func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
				if stage == "in the body" {
					startSSE(c)
					chunk(c, "data: 1\n\n")
				}
				close(reached)
				_, _ = c.Read(make([]byte, 1))
				left <- time.Now()
				return false
			})
			r := newRig(t, []*backend{b})
			ctx, cancel := context.WithCancel(t.Context())
			var gone time.Time
			go func() { // ends with the test: reached is closed or the test has failed
				<-reached
				gone = time.Now()
				cancel()
			}()
			a, res, err := r.serve(ctx, "x")
			if took := (<-left).Sub(gone); took > 100*time.Millisecond {
				t.Errorf("backend noticed after %v", took)
			}
			if !errors.Is(errors.Join(err, res.Broken), ErrClientGone) || a.ended != 0 {
				t.Errorf("error %v, broken %v, ended %d", err, res.Broken, a.ended)
			}
			r.atRest()
		})
	}
}

// Scenario 30: a client that does not read slows the backend down; what has
// been sent to the router stays bounded.
func TestSlowClient(t *testing.T) {
	var sent atomic.Int64
	b := serveScript(t, func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
		startSSE(c)
		for {
			if !chunk(c, strings.Repeat("x", 16<<10)) {
				return false
			}
			sent.Add(16 << 10)
		}
	})
	r := newRig(t, []*backend{b})
	ctx, cancel := context.WithCancel(t.Context())
	a := &answer{onData: func([]byte) error { <-ctx.Done(); return ctx.Err() }}
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := r.Serve(ctx, r.request("x"), a); err != nil || !errors.Is(res.Broken, ErrClientGone) {
			t.Errorf("%+v, %v", res, err)
		}
	})
	// The backend stops when the socket buffers are full.
	last := int64(-1)
	eventually(t, 10*time.Second, "backend is slowed down", func() bool {
		now := sent.Load()
		still := now == last && now > 0
		last = now
		if !still {
			return false
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return sent.Load() == now
	})
	if n := sent.Load(); n > 32<<20 {
		t.Errorf("%d bytes were taken from the backend", n)
	}
	cancel()
	wg.Wait()
	r.atRest()
}

// A backend that refuses a large body before it has read it is heard.
func TestEarlyRefusalOfLargeBody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, 100))
		reply(c, http.StatusRequestEntityTooLarge, "Connection: close\r\n", "too large")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<20))
	})
	r := newRigAt(t, []string{ln.Addr().String()}, (&net.Dialer{}).DialContext)
	req := r.request("start")
	req.Body = Body{Head: []byte("start"), Rest: strings.NewReader(strings.Repeat("x", 8<<20)), Size: 8<<20 + 5}
	a := &answer{}
	if res, err := r.Serve(t.Context(), req, a); err != nil || res.Status != http.StatusRequestEntityTooLarge || a.text() != "too large" {
		t.Errorf("%+v, %q, %v", res, a.text(), err)
	}
	r.atRest()
}

func TestBodyIsRelayed(t *testing.T) {
	for _, size := range []int64{3<<20 + 5, -1} {
		var got atomic.Int64
		b := serveScript(t, func(n int, c net.Conn, r *http.Request, body []byte) bool {
			got.Store(int64(len(body)))
			return ok(n, c, r, body)
		})
		r := newRig(t, []*backend{b})
		req := r.request("start")
		req.Body = Body{Head: []byte("start"), Rest: strings.NewReader(strings.Repeat("x", 3<<20)), Size: size}
		res, err := r.Serve(t.Context(), req, &answer{})
		if err != nil || got.Load() != 3<<20+5 || res.BytesIn != 3<<20+5 {
			t.Errorf("size %d: backend got %d bytes, result %+v, %v", size, got.Load(), res, err)
		}
	}
}

// A body that the client breaks off is the client's failure, not the backend's.
func TestClientBreaksOffBody(t *testing.T) {
	b := serveScript(t, ok)
	r := newRig(t, []*backend{b})
	req := r.request("start")
	cause := errors.New("half a body")
	req.Body = Body{Head: []byte("start"), Rest: io.MultiReader(strings.NewReader("more"), brokenReader{cause}), Size: 100}
	_, err := r.Serve(t.Context(), req, &answer{})
	if !errors.Is(err, ErrBody) || !errors.Is(err, cause) {
		t.Errorf("error is %v", err)
	}
	if l := r.picker.Snapshot(time.Now())[0]; l.Failures != 0 {
		t.Errorf("the backend is blamed: %+v", l)
	}
	r.atRest()
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// Scenario 22: at a new address a backend is a new one; connections to the old
// address carry nothing more.
func TestNewAddressNewConnections(t *testing.T) {
	old, moved := serveScript(t, ok), serveScript(t, ok)
	r := newRig(t, []*backend{old})
	if _, _, err := r.serve(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	e, err := r.picker.Epoch().Apply(routing.Change{PutBackends: []routing.Backend{
		{ID: "b0", URL: "http://" + moved.addr, Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.picker.SetEpoch(e)
	for range 10 {
		if _, _, err := r.serve(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if old.count() != 1 || moved.count() != 10 {
		t.Errorf("%d requests at the old address, %d at the new one", old.count(), moved.count())
	}
}
