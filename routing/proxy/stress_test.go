package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

// Scenario 1: aborts at every stage leave every count at zero. The stages:
// before anything is sent, in the queue, before the head, in the body, and
// after the end.
func TestAbortsLeaveNothing(t *testing.T) {
	total := 100_000
	if raceEnabled || testing.Short() {
		total = 10_000
	}
	stages := func(_ int, c net.Conn, r *http.Request, body []byte) bool {
		switch r.Header.Get("X-Stage") {
		case "head":
			_, _ = c.Read(make([]byte, 1)) // until the router hangs up
			return false
		case "body":
			startSSE(c)
			chunk(c, "data: 1\n\n")
			_, _ = c.Read(make([]byte, 1))
			return false
		}
		return ok(0, c, r, body)
	}
	b0, b1 := serveScript(t, stages), serveScript(t, stages)
	r := newRig(t, []*backend{b0, b1}, func(_ *Config, _ *routing.Endpoint, b *routing.Backend) { b.MaxInflight = 8 })
	var next, aborted atomic.Int64
	var wg sync.WaitGroup
	for range 24 { // more than there are slots, so that some wait in the queue
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(total) {
					return
				}
				if r.abort(t.Context(), i) {
					aborted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	r.atRest()
	if n := aborted.Load(); n < int64(total)/2 {
		t.Errorf("only %d of %d requests were aborted", n, total)
	}
	for _, l := range r.picker.Snapshot(time.Now()) {
		if l.Failures != 0 || !l.EjectedUntil.IsZero() {
			t.Errorf("backend %s is blamed for clients that left: %+v", l.Backend.ID, l)
		}
	}
	// Nothing is skewed: one request after another, they take turns.
	var picks [2]uint64
	for i, l := range r.picker.Snapshot(time.Now()) {
		picks[i] = l.Picks
	}
	if lo, hi := min(picks[0], picks[1]), max(picks[0], picks[1]); float64(lo) < 0.8*float64(hi) {
		t.Errorf("picks are %v", picks)
	}
}

// abort sends request number i and leaves at a stage that i decides.
func (r *rig) abort(parent context.Context, i int64) bool {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	req := r.request("x")
	a := &answer{}
	switch i % 5 {
	case 0:
		cancel()
	case 1:
		req.Header.Set("X-Stage", "head")
		defer time.AfterFunc(time.Duration(i%7)*100*time.Microsecond, cancel).Stop()
	case 2:
		req.Header.Set("X-Stage", "body")
		a.onData = func([]byte) error { cancel(); return nil }
	case 3:
		req.Header.Set("X-Stage", "body")
		a.onData = func([]byte) error { return io.ErrClosedPipe } // the write fails first
	}
	res, err := r.Serve(ctx, req, a)
	return errors.Is(err, ErrClientGone) || errors.Is(res.Broken, ErrClientGone)
}

// passThrough writes an answer to a net/http client.
type passThrough struct {
	w http.ResponseWriter
}

func (p passThrough) Begin(r *Reply) error {
	r.Fields.AddTo(p.w.Header())
	p.w.WriteHeader(r.Status)
	return nil
}

func (p passThrough) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, http.NewResponseController(p.w).Flush()
}

func (p passThrough) End(_ http.Header, broken error) {
	if broken != nil {
		panic(http.ErrAbortHandler)
	}
}

// A backend that answers on the last byte of the body has its answer passed on
// whole, every time (see golang/go#40747 for what goes wrong elsewhere).
func TestFastAnswersAreNotTruncated(t *testing.T) {
	const events = 20
	b := serveScript(t, func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
		startSSE(c)
		for range events {
			chunk(c, "data: x\n\n")
		}
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err == nil
	})
	r := newRig(t, []*backend{b})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		body, err := io.ReadAll(hr.Body)
		if err != nil {
			t.Error(err)
		}
		req := r.request(string(body))
		if _, err := r.Serve(hr.Context(), req, passThrough{w}); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	total := 10_000
	if raceEnabled || testing.Short() {
		total = 1_000
	}
	payload := bytes.Repeat([]byte("p"), 4<<10)
	want := strings.Repeat("data: x\n\n", events)
	var next, bad atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for next.Add(1) <= int64(total) {
				if got, err := post(t.Context(), front, payload); err != nil || got != want {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := bad.Load(); n != 0 {
		t.Errorf("%d of %d answers were truncated", n, total)
	}
	r.atRest()
}

func post(ctx context.Context, s *httptest.Server, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

// FuzzAnswer: whatever a backend sends, Serve ends without a panic, with every
// slot given back, and without an error once the answer has begun.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 429 No\r\nRetry-After: 1e99\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n{\"usage\":{\"prompt_tokens\":9999999999999}}"))
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { // ends when the router closes its side
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				_, _ = theirs.Write(raw)
				_ = theirs.Close()
			}()
			return ours, nil
		}
		r := newRigAt(t, []string{"a:1", "b:1"}, dial)
		a := &answer{}
		res, err := r.Serve(t.Context(), r.request("x"), a)
		if (a.head != nil) == (err != nil) {
			t.Errorf("began: %v, error: %v", a.head != nil, err)
		}
		if u := res.Usage; u.Cached > u.Prompt || u.Prompt < 0 {
			t.Errorf("usage %+v", u)
		}
		r.atRest()
	})
}

func BenchmarkServe(b *testing.B) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			reply(c, http.StatusOK, "Content-Type: application/json\r\n", "{}")
		}
	})
	r := newRigAt(b, []string{ln.Addr().String()}, (&net.Dialer{}).DialContext)
	r.deps.Log = slog.New(slog.DiscardHandler)
	req := r.request(strings.Repeat("x", 4<<10))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Serve(b.Context(), req, &discard{}); err != nil {
			b.Fatal(err)
		}
	}
	r.Close()
}

type discard struct{}

func (discard) Begin(*Reply) error          { return nil }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) End(http.Header, error)      {}
