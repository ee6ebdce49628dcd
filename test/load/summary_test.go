package load

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// answered is a request without error.
func answered(at, first time.Duration, backend string, prompt, cached int) Request {
	return Request{
		At: at, First: first, Total: first + time.Second, Backend: backend, Decision: "home",
		Prompt: prompt, Cached: cached, Metered: true, Output: 2,
	}
}

const msec = time.Millisecond

func TestSummarise(t *testing.T) {
	r := &Result{Sending: 11 * time.Second, Unfinished: 2, Requests: []Request{
		answered(0, time.Hour, "warm", 1000, 0), // within the warm-up
		answered(1*time.Second, 40*msec, "a", 100, 90),
		answered(2*time.Second, 10*msec, "a", 100, 60),
		answered(3*time.Second, 30*msec, "a", 100, 0),
		answered(4*time.Second, 20*msec, "b", 100, 50),
		{At: 5 * time.Second, First: 50 * msec, Total: time.Second, Backend: "b"}, // does not say what it had
		{At: 6 * time.Second, Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)},
		{At: 6 * time.Second, Err: &StatusError{Code: 503, Said: "busy"}, Decision: "retry"},
		{At: 6 * time.Second, Err: &StatusError{Code: 503, Said: "busy too"}},
	}}
	s := Summarise("run", r, time.Second, []string{"a", "b", "idle"})
	got := map[string]float64{
		"requests": float64(s.Requests), "errors": float64(s.Errors), "unfinished": float64(s.Unfinished), "seconds": s.Seconds,
		"hit": *s.Hit, "p50": s.P50, "p90": s.P90, "p99": s.P99, "mean": s.Mean, "rps": s.RPS, "min": *s.ShareMin, "max": *s.ShareMax,
		"prompt": float64(s.Prompt), "cached": float64(s.Cached), "output": float64(s.Output),
	}
	want := map[string]float64{
		"requests": 8, "errors": 3, "unfinished": 2, "seconds": 10,
		"hit": 0.5, "p50": 30, "p90": 50, "p99": 50, "mean": 30, "rps": 0.5, "min": 0, "max": 0.6,
		"prompt": 400, "cached": 200, "output": 8,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	kinds := []ErrorKind{{"status 503", 2, "answered 503 Service Unavailable: busy"}, {"connection refused", 1, "dial: connection refused"}}
	if diff := cmp.Diff(kinds, s.Kinds); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"home": 4, "retry": 1}, s.Decisions); diff != "" {
		t.Error(diff)
	}
	servers := []ServerShare{
		{Name: "a", Requests: 3, Share: 0.6, Prompt: 300, Cached: 150, Hit: new(0.5), P50: 30},
		{Name: "b", Requests: 2, Share: 0.4, Prompt: 100, Cached: 50, Hit: new(0.5), P50: 20},
		{Name: "idle"},
	}
	if diff := cmp.Diff(servers, s.Servers); diff != "" {
		t.Error(diff)
	}
}

func TestSummariseWhatIsNotKnown(t *testing.T) {
	s := Summarise("run", &Result{Sending: time.Second, Requests: []Request{{First: msec}}}, 0, []string{"a"})
	if s.Hit != nil || s.ShareMin != nil || s.ShareMax != nil || len(s.Servers) != 0 {
		t.Errorf("hit %v, share %v to %v of %v: nobody said any of it", s.Hit, s.ShareMin, s.ShareMax, s.Servers)
	}
	empty := Summarise("run", &Result{}, 0, nil)
	if empty.P50 != 0 || empty.RPS != 0 || empty.Mean != 0 || empty.Kinds == nil || empty.Slices == nil {
		t.Errorf("a run without requests is %+v", empty)
	}
}

func TestPlotsKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		span := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "span")
		r := &Result{Sending: time.Duration(span)}
		for range n {
			at := time.Duration(rapid.Int64Range(0, span).Draw(t, "at"))
			r.Requests = append(r.Requests, answered(at, time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "first")), "a", 1, 0))
		}
		s := Summarise("run", r, 0, nil)
		if len(s.CDF) == 0 || len(s.CDF) > pointsMost || len(s.Slices) == 0 || len(s.Slices) > slicesMost {
			t.Fatalf("%d points, %d slices", len(s.CDF), len(s.Slices))
		}
		last := Point{}
		for _, p := range s.CDF {
			if p.Ms < last.Ms || p.Share <= last.Share {
				t.Fatalf("the CDF falls from %v to %v", last, p)
			}
			last = p
		}
		if last.Share != 1 {
			t.Fatalf("the CDF ends at %v", last)
		}
	})
}

func TestKind(t *testing.T) {
	for want, err := range map[string]error{
		"status 429":          fmt.Errorf("x: %w", &StatusError{Code: 429}),
		"error in stream":     fmt.Errorf("%w: x", ErrEvent),
		"stream broke off":    fmt.Errorf("%w: %w", ErrBroken, errors.New("unexpected EOF")),
		"not a chat's stream": fmt.Errorf("%w: it is a page", ErrDialect),
		"connection refused":  fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"connection failed":   errors.New("no such host"),
	} {
		if got := kind(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
