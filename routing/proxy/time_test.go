package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/routing"
)

// piped makes a Dial whose connections end in s, inside a bubble. addr is the
// host name of the backend.
func piped(wg *sync.WaitGroup, s func(addr string, c net.Conn, r *http.Request) bool) Dial {
	return func(_ context.Context, _, addr string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		wg.Go(func() {
			defer theirs.Close()
			br := bufio.NewReader(theirs)
			for {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				if _, err := r.Body.Read(make([]byte, 64)); err != nil && err.Error() != "EOF" {
					return
				}
				if !s(addr, theirs, r) {
					return
				}
			}
		})
		return ours, nil
	}
}

// Scenario 32: a backend that accepts and never answers is given up after the
// limit for the first byte; the request goes elsewhere, the slot is free and
// the backend is ejected although it never refused anything (scenario 27).
func TestHangIsRetriedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		var first atomic.Pointer[string]
		dial := piped(&wg, func(addr string, c net.Conn, _ *http.Request) bool {
			first.CompareAndSwap(nil, &addr)
			if addr == *first.Load() {
				_, _ = c.Read(make([]byte, 1))
				return false
			}
			return reply(c, http.StatusOK, "", "fine")
		})
		r := newRigAt(t, []string{"a:1", "b:1", "c:1"}, dial)
		defer r.Close()
		begun := time.Now()
		a, res, err := r.serve(t.Context(), "x")
		if err != nil || a.text() != "fine" || res.Attempts != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		if took := time.Since(begun); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("took %v; the limit is a minute", took)
		}
		for range 20 {
			if _, res, err := r.serve(t.Context(), "x"); err != nil || res.Attempts != 1 {
				t.Fatalf("%+v, %v: the hanging backend is avoided", res, err)
			}
		}
		r.atRest()
	})
}

// A hang on a connection that was used before is given up after the whole limit.
func TestHangOnAUsedConnection(t *testing.T) {
	for _, pause := range []time.Duration{5 * time.Second, 70 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var wg sync.WaitGroup
			defer wg.Wait()
			n := 0
			dial := piped(&wg, func(_ string, c net.Conn, _ *http.Request) bool {
				if n++; n == 1 {
					return reply(c, http.StatusOK, "", "fine")
				}
				_, _ = c.Read(make([]byte, 1))
				return false
			})
			r := newRigAt(t, []string{"a:1"}, dial)
			defer r.Close()
			if _, _, err := r.serve(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
			_, res, err := r.serve(t.Context(), "x")
			wantKind(t, err, Timeout)
			if res.Total != time.Minute {
				t.Errorf("after %v: given up after %v", pause, res.Total)
			}
		})
	}
}

func TestStallInTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		dial := piped(&wg, func(_ string, c net.Conn, _ *http.Request) bool {
			startSSE(c)
			chunk(c, "data: 1\n\n")
			_, _ = c.Read(make([]byte, 1))
			return false
		})
		r := newRigAt(t, []string{"a:1"}, dial)
		defer r.Close()
		a, res, err := r.serve(t.Context(), "x")
		if err != nil || a.ended != 1 || res.Total < r.cfg.Timeouts.Idle {
			t.Fatalf("%+v, %v", res, err)
		}
		wantKind(t, a.broken, Timeout)
		r.atRest()
	})
}

// Long generations trip nothing (scenario 38), up to the limit of a stream.
func TestStreamLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		defer wg.Wait()
		dial := piped(&wg, func(_ string, c net.Conn, _ *http.Request) bool {
			startSSE(c)
			for chunk(c, "data: 1\n\n") {
				time.Sleep(50 * time.Second)
			}
			return false
		})
		r := newRigAt(t, []string{"a:1"}, dial)
		defer r.Close()
		a, res, err := r.serve(t.Context(), "x")
		if err != nil || res.Total != r.cfg.Timeouts.Stream || res.Events != 10 {
			t.Fatalf("%+v, %v", res, err)
		}
		wantKind(t, a.broken, Timeout)
	})
}

// A full backend makes requests wait, tenants take turns, and whoever leaves
// the queue leaves nothing behind.
func TestQueueIsFairBetweenTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg, clients sync.WaitGroup
		defer wg.Wait()
		var order []string // one request at a time is served
		dial := piped(&wg, func(_ string, c net.Conn, r *http.Request) bool {
			order = append(order, r.Header.Get("X-Tenant"))
			time.Sleep(time.Second)
			return reply(c, http.StatusOK, "", "fine")
		})
		r := newRigAt(t, []string{"a:1"}, dial, func(_ *Config, _ *routing.Endpoint, b *routing.Backend) { b.MaxInflight = 1 })
		defer r.Close()
		send := func(tenant string) {
			clients.Go(func() {
				req := r.request("x")
				req.Tenant = tenant
				req.Header.Set("X-Tenant", tenant)
				if _, err := r.Serve(t.Context(), req, &answer{}); err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
			})
			synctest.Wait()
		}
		for range 5 {
			send("greedy")
		}
		send("modest")
		send("modest")
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		if _, _, err := r.serve(ctx, "x"); !errors.Is(err, ErrClientGone) {
			t.Errorf("error is %v", err)
		}
		clients.Wait()
		want := []string{"greedy", "greedy", "modest", "greedy", "modest", "greedy", "greedy"}
		if !slices.Equal(order, want) {
			t.Errorf("served %v; want %v", order, want)
		}
		r.atRest()
	})
}

func TestQueueLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg, clients sync.WaitGroup
		defer wg.Wait()
		dial := piped(&wg, func(_ string, c net.Conn, _ *http.Request) bool {
			time.Sleep(30 * time.Second)
			return reply(c, http.StatusOK, "", "fine")
		})
		r := newRigAt(t, []string{"a:1"}, dial, func(c *Config, _ *routing.Endpoint, b *routing.Backend) {
			b.MaxInflight, c.Queue.Length = 1, 2
		})
		defer r.Close()
		results := map[string]int{}
		var mu sync.Mutex
		for range 5 {
			clients.Go(func() {
				_, _, err := r.serve(t.Context(), "x")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					results["served"]++
				case errors.Is(err, ErrQueueFull) && errors.Is(err, routing.ErrSaturated):
					results["full"]++
				case errors.Is(err, ErrQueueTimeout):
					results["timeout"]++
				}
			})
			synctest.Wait()
		}
		clients.Wait()
		if fmt.Sprint(results) != "map[full:2 served:1 timeout:2]" {
			t.Errorf("results are %v", results)
		}
		r.atRest()
	})
}

func TestRunSweepsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		dial := piped(&wg, func(_ string, c net.Conn, _ *http.Request) bool { return reply(c, http.StatusOK, "", "fine") })
		r := newRigAt(t, []string{"a:1"}, dial)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		if _, _, err := r.serve(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(r.cfg.Pool.Idle + 2*sweepEvery)
		wg.Wait() // the idle connection has been closed
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestBudget(t *testing.T) {
	now := time.Unix(0, 0)
	b := budget{ratio: 0.5, floor: 2, tokens: 2}
	spend := func(n int) (got int) {
		for range n {
			if b.spend(now) {
				got++
			}
		}
		return got
	}
	b.earn(now)
	b.earn(now)
	if got := spend(10); got != 3 {
		t.Errorf("%d retries; 2 at the start and 1 earned by 2 requests", got)
	}
	now = now.Add(2 * time.Second)
	if got := spend(10); got != 4 {
		t.Errorf("%d retries; 4 earned in 2 s", got)
	}
	now = now.Add(-time.Hour) // a clock that jumps earns nothing and breaks nothing
	if got := spend(10); got != 0 {
		t.Errorf("%d retries after the clock went back", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		in   string
		want time.Duration
		told bool
	}{
		{"", time.Second, false},
		{"7", 7 * time.Second, true},
		{" 0.5 ", 500 * time.Millisecond, true},
		{"999999", time.Minute, true},
		{"-3", time.Second, true},
		{"soon", time.Second, true},
		{now.Add(9 * time.Second).Format(http.TimeFormat), 9 * time.Second, true},
		{now.Add(-9 * time.Second).Format(http.TimeFormat), 0, true},
	} {
		if d, told := retryAfter(c.in, now); d != c.want || told != c.told {
			t.Errorf("%q: %v, %v; want %v, %v", c.in, d, told, c.want, c.told)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Usage
	}{
		{`{"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`, Usage{true, 12, 3, 8, true}},
		{`{"usage" : { "prompt_tokens" : 12, "total_tokens":12, "prompt_tokens_details":null}}`, Usage{true, 12, 0, 0, false}},
		{`data: {"choices":[],"usage":null}` + "\n\n" + `data: {"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}` + "\n\n", Usage{true, 5, 2, 4, true}},
		{`data: {"usage":{"prompt_tokens":5}}` + "\n\n" + `data: {"usage":null}` + "\n\ndata: [DONE]\n\n", Usage{true, 5, 0, 0, false}},
		{`{"usage":{"input_tokens":4,"cache_read_input_tokens":90,"cache_creation_input_tokens":6,"output_tokens":7}}`, Usage{true, 100, 7, 90, true}},
		{`{"usage":{"input_tokens":4,"cache_read_input_tokens":null,"output_tokens":7}}`, Usage{true, 4, 7, 0, false}},
		{`{"usage":{"prompt_tokens":100,"cache_read_input_tokens":90,"completion_tokens":7}}`, Usage{true, 100, 7, 90, true}},
		{`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}}`, Usage{true, 5, 0, 5, true}},
		{`{"usage":{"prompt_tokens":5`, Usage{}},
		{`{"choices":[{"text":"\"usage\": yes"}]}`, Usage{}},
		{`no json at all`, Usage{}},
		{``, Usage{}},
	} {
		for _, pad := range []int{0, 1, usageWindow - 100, 3 * usageWindow} {
			var whole, bytewise tail
			text := strings.Repeat(" ", pad) + c.in
			whole.write([]byte(text))
			for i := range len(text) {
				bytewise.write([]byte(text[i : i+1]))
			}
			if whole.usage() != c.want || bytewise.usage() != c.want {
				t.Errorf("%q after %d bytes: %+v and %+v; want %+v", c.in, pad, whole.usage(), bytewise.usage(), c.want)
			}
		}
	}
}
