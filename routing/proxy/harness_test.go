package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/prefix"
)

// script is what a fake backend does with one request on one connection; it
// returns false to close the connection.
type script func(n int, c net.Conn, r *http.Request, body []byte) bool

// backend is a scripted HTTP/1.1 server on loopback.
type backend struct {
	addr     string
	ln       net.Listener
	mu       sync.Mutex // guards requests, open
	requests []string   // bodies, in order of arrival
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

func serveScript(t *testing.T, s script) *backend {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{addr: ln.Addr().String(), ln: ln, open: map[net.Conn]bool{}}
	b.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.open[c] = true
			b.mu.Unlock()
			b.wg.Go(func() { b.serve(c, s) })
		}
	})
	t.Cleanup(b.stop)
	return b
}

// stop closes the listener and every connection, and waits.
func (b *backend) stop() {
	_ = b.ln.Close()
	b.mu.Lock()
	for c := range b.open {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *backend) serve(c net.Conn, s script) {
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		delete(b.open, c)
		b.mu.Unlock()
	}()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.requests = append(b.requests, string(body))
		n := len(b.requests)
		b.mu.Unlock()
		if !s(n, c, r, body) {
			return
		}
	}
}

func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests)
}

func (b *backend) conns() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

func reply(c net.Conn, status int, header, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), header, len(body), body)
	return err == nil
}

func ok(_ int, c net.Conn, _ *http.Request, body []byte) bool {
	return reply(c, http.StatusOK, "Content-Type: application/json\r\n", `{"got":`+strconv.Itoa(len(body))+`}`)
}

func startSSE(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
}

func chunk(c net.Conn, s string) bool {
	_, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s)
	return err == nil
}

// answer records what Serve brings.
type answer struct {
	mu     sync.Mutex // guards all
	head   *Reply
	body   strings.Builder
	ended  int
	broken error
	events int
	onData func([]byte) error
}

func (a *answer) Begin(r *Reply) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	head := *r
	head.Fields = slices.Clone(r.Fields)
	a.head = &head
	return nil
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	a.body.Write(p)
	a.events++
	f := a.onData
	a.mu.Unlock()
	if f != nil {
		return len(p), f(p)
	}
	return len(p), nil
}

func (a *answer) End(_ http.Header, broken error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended++
	a.broken = broken
}

func (a *answer) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.body.String()
}

// rig is a Proxy before some backends.
type rig struct {
	*Proxy
	t      testing.TB
	picker *routing.Picker
}

type option func(*Config, *routing.Endpoint, *routing.Backend)

func newRig(t testing.TB, backends []*backend, opts ...option) *rig {
	t.Helper()
	var addrs []string
	for _, b := range backends {
		addrs = append(addrs, b.addr)
	}
	return newRigAt(t, addrs, (&net.Dialer{}).DialContext, opts...)
}

func newRigAt(t testing.TB, addrs []string, dial Dial, opts ...option) *rig {
	t.Helper()
	cfg := Default()
	ep := routing.Endpoint{Name: "demo", Variants: []routing.Variant{{Name: "main", Weight: 1, Policy: routing.Policy{Strategy: routing.LeastOutstandingRequests}}}}
	change := routing.Change{}
	for i, addr := range addrs {
		b := routing.Backend{ID: "b" + strconv.Itoa(i), URL: "http://" + addr, Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active}
		for _, o := range opts {
			o(&cfg, &ep, &b)
		}
		change.PutBackends = append(change.PutBackends, b)
	}
	change.PutEndpoints = []routing.Endpoint{ep}
	e, err := routing.NewEpoch(1, 7).Apply(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	picker := routing.NewPicker(routing.PickerConfig{})
	picker.SetEpoch(e)
	r := &rig{Proxy: New(cfg, Deps{Picker: picker, Dial: dial, Log: slog.New(slog.DiscardHandler)}), t: t, picker: picker}
	t.Cleanup(r.Close)
	return r
}

func (r *rig) request(body string) *Request {
	r.t.Helper()
	place, err := r.picker.Epoch().Map(&routing.Request{Endpoint: "demo", Text: &prefix.Text{Bytes: []byte(body), Raw: true}})
	if err != nil {
		r.t.Fatal(err)
	}
	return &Request{
		Place: place, Method: http.MethodPost, Path: "/v1/chat/completions",
		Header:     http.Header{"Content-Type": {"application/json"}, "X-Custom": {"a", "b"}},
		Body:       Body{Head: []byte(body), Size: int64(len(body))},
		Repeatable: true,
	}
}

func (r *rig) serve(ctx context.Context, body string) (*answer, Result, error) {
	a := &answer{}
	res, err := r.Serve(ctx, r.request(body), a)
	return a, res, err
}

// atRest fails unless every count is zero.
func (r *rig) atRest() {
	r.t.Helper()
	for _, l := range r.picker.Snapshot(time.Now()) {
		if l.InFlight != 0 || l.Prefill != 0 {
			r.t.Errorf("backend %s: %d in flight, %v tokens to prefill; want none", l.Backend.ID, l.InFlight, l.Prefill)
		}
	}
	if n := r.Queued(); n != 0 {
		r.t.Errorf("%d queued; want none", n)
	}
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(within)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func wantKind(t testing.TB, err error, kind Kind) {
	t.Helper()
	var up *UpstreamError
	if !errors.As(err, &up) || up.Kind != kind {
		t.Fatalf("error is %v; want one of kind %s", err, kind)
	}
}
