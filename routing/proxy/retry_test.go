package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

// Scenario 21: a backend that is gone costs no request, and is avoided at once.
func TestRefusedConnectionIsRetriedAndAvoided(t *testing.T) {
	gone := serveScript(t, ok)
	gone.stop()
	alive := serveScript(t, ok)
	r := newRig(t, []*backend{gone, alive})
	retried := 0
	for i := range 50 {
		_, res, err := r.serve(t.Context(), fmt.Sprint(i))
		if err != nil || res.Backend != "b1" {
			t.Fatalf("request %d: %v, by %s", i, err, res.Backend)
		}
		retried += res.Attempts - 1
	}
	if retried > 1 {
		t.Errorf("%d requests went to the backend that is gone; want one at most", retried)
	}
	r.atRest()
}

func TestNoBackendAlive(t *testing.T) {
	gone := serveScript(t, ok)
	gone.stop()
	r := newRig(t, []*backend{gone})
	_, _, err := r.serve(t.Context(), "x")
	wantKind(t, err, Refused)
	r.atRest()
}

// What no request line can hold is the client's doing, and no backend's.
func TestTargetIsNobodysFault(t *testing.T) {
	b := serveScript(t, ok)
	r := newRig(t, []*backend{b, b})
	for _, path := range []string{"/v1/x?a b", "/v1/x?a\x7f", "", "v1"} {
		req := r.request("x")
		req.Path = path
		if _, err := r.Serve(t.Context(), req, &answer{}); !errors.Is(err, ErrTarget) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, l := range r.picker.Snapshot(time.Now()) {
		if l.Picks != 0 || b.count() != 0 {
			t.Errorf("backend %s was picked %d times", l.Backend.ID, l.Picks)
		}
	}
	r.atRest()
}

// Scenario 31: a backend that dies in mid-stream is told, never retried, never
// passed off as an end.
func TestDeathMidStream(t *testing.T) {
	die := func(_ int, c net.Conn, _ *http.Request, _ []byte) bool {
		startSSE(c)
		chunk(c, "data: 1\n\n")
		return false
	}
	b0, b1 := serveScript(t, die), serveScript(t, die)
	r := newRig(t, []*backend{b0, b1})
	a, res, err := r.serve(t.Context(), "x")
	if err != nil || a.text() != "data: 1\n\n" || a.ended != 1 {
		t.Fatalf("%q, ended %d, %v", a.text(), a.ended, err)
	}
	wantKind(t, a.broken, Reset)
	if !errors.Is(res.Broken, a.broken) || b0.count()+b1.count() != 1 {
		t.Errorf("result %+v; %d requests were sent", res, b0.count()+b1.count())
	}
	r.atRest()
}

// Death before the first byte of the body is retried elsewhere.
func TestDeathBeforeFirstByte(t *testing.T) {
	var died atomic.Int32
	s := func(_ int, c net.Conn, r *http.Request, body []byte) bool {
		if died.Add(1) == 1 {
			startSSE(c)
			return false
		}
		return ok(0, c, r, body)
	}
	b0, b1 := serveScript(t, s), serveScript(t, s)
	r := newRig(t, []*backend{b0, b1})
	a, res, err := r.serve(t.Context(), "body")
	if err != nil || a.head.Status != http.StatusOK || res.Attempts != 2 || res.Decision != routing.DecisionRetry {
		t.Fatalf("%+v, %v", res, err)
	}
	if b0.count() != 1 || b1.count() != 1 {
		t.Errorf("%d and %d requests; a retry goes elsewhere", b0.count(), b1.count())
	}
	r.atRest()
}

func TestNotRepeatableIsNotRetried(t *testing.T) {
	die := func(int, net.Conn, *http.Request, []byte) bool { return false }
	b0, b1 := serveScript(t, die), serveScript(t, die)
	r := newRig(t, []*backend{b0, b1})
	req := r.request("x")
	req.Repeatable = false
	_, err := r.Serve(t.Context(), req, &answer{})
	wantKind(t, err, Reset)
	if n := b0.count() + b1.count(); n != 1 {
		t.Errorf("%d requests were sent; want 1", n)
	}
}
