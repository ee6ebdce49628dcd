package simnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a := n.Host("a")
		one, two := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("10.1.1.2")
		n.SetName("models", one, two)
		n.SetName("empty")
		n.SetSRV("_http._tcp.models", &net.SRV{Target: "b", Port: 80})
		for host, want := range map[string][]netip.Addr{
			"models": {one, two}, "b": {n.Host("b").IP()}, "10.7.7.7": {netip.MustParseAddr("10.7.7.7")}, "empty": nil, "unknown": nil,
		} {
			got, err := a.Lookup(t.Context(), host)
			if dns, missing := errors.AsType[*net.DNSError](err); !slices.Equal(got, want) || missing != (want == nil) || missing && !dns.IsNotFound {
				t.Errorf("%s: %v, %v", host, got, err)
			}
		}
		if srv, err := a.LookupSRV(t.Context(), "_http._tcp.models"); err != nil || len(srv) != 1 || srv[0].Target != "b" {
			t.Errorf("%v, %v", srv, err)
		}
		n.SetResolver(3*time.Second, io.ErrUnexpectedEOF)
		within(t, 3*time.Second, 3*time.Second, func() {
			if _, err := a.Lookup(t.Context(), "models"); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("failing: %v", err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.LookupSRV(ctx, "models"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slow: %v", err)
		}
	})
}

func TestClockAndRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := n.Host("a"), n.Host("b")
		a.JumpClock(-3 * time.Hour)
		if d := b.Now().Sub(a.Now()); d != 3*time.Hour {
			t.Errorf("the clocks are %v apart", d)
		}
		read := func(h *Host) string {
			buf := make([]byte, 16)
			if _, err := io.ReadFull(h.Random(), buf); err != nil {
				t.Fatal(err)
			}
			return string(buf)
		}
		first := read(a)
		if read(New(Default()).Host("a")) != first || read(b) == first || read(a) == first {
			t.Error("randomness must depend on seed and name, and go on")
		}
	})
}
