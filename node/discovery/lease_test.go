package discovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/routing"
)

func found(id string) plan.Found {
	return plan.Found{ID: id, URL: "http://" + id + ":80", Endpoint: "chat", Variant: "main", Weight: 1, Source: "whatever they say"}
}

func live(l *Leases) string {
	list, _ := l.Live(time.Now())
	return ids(list)
}

func TestLeasesRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeases(Default())
		for id, ttl := range map[string]time.Duration{"b": 10 * time.Second, "a": 20 * time.Second} {
			if err := l.Renew(found(id), ttl, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		list, next := l.Live(time.Now())
		if ids(list) != "a b" || list[0].Source != plan.Lease || time.Until(next) != 10*time.Second {
			t.Errorf("%v until %s", list, next)
		}
		time.Sleep(10*time.Second - 1)
		if got := live(l); got != "a b" {
			t.Error(got)
		}
		time.Sleep(time.Nanosecond)
		if got := live(l); got != "a" {
			t.Error(got)
		}
		moved := found("a")
		moved.URL = "http://other:80"
		if err := l.Renew(moved, time.Minute, time.Now()); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		if list, _ := l.Live(time.Now()); len(list) != 1 || list[0].URL != "http://other:80" {
			t.Errorf("%v", list)
		}
		l.Release("a")
		if list, next := l.Live(time.Now()); len(list) != 0 || !next.IsZero() {
			t.Errorf("%v %s", list, next)
		}
	})
}

func TestLeaseLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeases(Default())
		for _, ttl := range []time.Duration{-1, 0, time.Second - 1, 10*time.Minute + 1} {
			if err := l.Renew(found("a"), ttl, time.Now()); !errors.Is(err, ErrTTL) || !strings.Contains(err.Error(), "must be 1s to 10m0s") {
				t.Errorf("%s: %v", ttl, err)
			}
		}
		if err := l.Renew(found(strings.Repeat("x", maxText)), time.Second, time.Now()); !errors.Is(err, ErrText) {
			t.Error(err)
		}
		for i := range maxLeases {
			if err := l.Renew(found(fmt.Sprint(i)), time.Duration(1+i%2)*time.Minute, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Renew(found("more"), time.Minute, time.Now()); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		if err := l.Renew(found("0"), time.Minute, time.Now()); err != nil {
			t.Error("one that is there cannot be renewed:", err)
		}
		time.Sleep(time.Minute)
		if err := l.Renew(found("more"), time.Minute, time.Now()); err != nil {
			t.Error("leases that ran out take the place:", err)
		}
	})
}

// A new leader gives every lease its full time again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeases(Default())
		if err := l.Renew(found("old"), time.Minute, time.Now()); err != nil {
			t.Fatal(err)
		}
		of := func(id, source string, state routing.State) routing.Backend {
			return routing.Backend{ID: id, URL: "http://" + id + ":80", Endpoint: "chat", Variant: "main", Weight: 1, MaxInflight: 2, Source: source, State: state}
		}
		l.Restart(time.Now(), []routing.Backend{
			of("a", plan.Lease, routing.Active), of("b", plan.Lease, routing.Joining), of("c", plan.Lease, routing.Draining),
			of("d", "", routing.Active), of("e", "dns:x", routing.Active),
		})
		time.Sleep(10*time.Minute - 1)
		list, _ := l.Live(time.Now())
		if got := ids(list); got != "a b" {
			t.Fatal(got)
		}
		want := found("a")
		want.Source, want.MaxInflight = plan.Lease, 2
		if diff := cmp.Diff(want, list[0]); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Nanosecond)
		if got := live(l); got != "" {
			t.Error(got)
		}
	})
}
