package simnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func groups(n *Network) (a, b Group) { return Group{n.Host("a")}, Group{n.Host("b")} }

// reads starts a read and returns a channel with what came, "" for an error.
func reads(c net.Conn) <-chan string {
	out := make(chan string, 1)
	go func() {
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		out <- string(buf[:n])
	}()
	return out
}

func TestACutStreamLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		a, b := groups(n)
		mustWrite(t, client, "before ")
		time.Sleep(5 * time.Millisecond)
		mustWrite(t, client, "during ")
		cut := n.Split(a, b)
		mustRead(t, server, "before ")
		got := reads(server)
		mustWrite(t, client, "after")
		time.Sleep(time.Minute)
		select {
		case text := <-got:
			t.Errorf("%q came through a cut link", text)
		default:
		}
		cut.Heal()
		cut.Heal()
		within(t, time.Millisecond, 5*time.Millisecond, func() {
			if text := <-got; text != "during " {
				t.Errorf("%q", text)
			}
			mustRead(t, server, "after")
		})
	})
}

func TestFaultsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		a, b := groups(n)
		one, two := n.OneWay(a, b), n.Split(a, b)
		mustWrite(t, client, "x")
		got := reads(server)
		one.Heal()
		time.Sleep(time.Second)
		if len(got) > 0 {
			t.Error("the link was whole before the last fault was healed")
		}
		two.Heal()
		<-got
	})
}

func TestOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		a, b := groups(n)
		cut := n.OneWay(a, b)
		mustWrite(t, server, "passes")
		mustRead(t, client, "passes")
		mustWrite(t, client, "waits")
		got := reads(server)
		time.Sleep(time.Minute)
		if len(got) > 0 {
			t.Error("it passed")
		}
		cut.Heal()
		if text := <-got; text != "waits" {
			t.Errorf("%q", text)
		}
	})
}

func TestDialAcrossACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := groups(n)
		l, err := n.Host("b").Listen(t.Context(), "tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, cut := range []*Fault{n.Split(a, b), n.OneWay(a, b), n.OneWay(b, a), n.DropStreams(a, b)} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if _, err := n.Host("a").Dial(ctx, "tcp", "b:80"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dial: %v", err)
			}
			cancel()
			cut.Heal()
		}
		cut := n.Split(a, b)
		time.AfterFunc(time.Second, cut.Heal)
		within(t, time.Second, time.Second+10*time.Millisecond, func() {
			if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:80"); err != nil {
				t.Error(err)
			}
		})
		n.Split(a, b)
		within(t, synLimit, synLimit, func() {
			if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:80"); !errors.Is(err, syscall.ETIMEDOUT) {
				t.Error(err)
			}
		})
	})
}

func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := groups(n)
		hole := n.BlackHole(a, b)
		client, server := pair(t, n)
		mustWrite(t, client, "x")
		got := reads(server)
		time.Sleep(time.Minute)
		if len(got) > 0 {
			t.Error("it passed")
		}
		hole.Heal()
		<-got
	})
}

func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := n.Host("a"), n.Host("b")
		client, server := pair(t, n)
		l, err := b.Listen(t.Context(), "tcp", ":81")
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Packets(t.Context(), "udp", ":81")
		if err != nil {
			t.Fatal(err)
		}
		b.Kill()
		within(t, time.Millisecond, 2*time.Millisecond, func() {
			if err := readError(client); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the peer's read: %v", err)
			}
		})
		_, acceptErr := l.Accept()
		_, _, packetErr := p.ReadFrom(nil)
		_, dialErr := b.Dial(t.Context(), "tcp", "a:80")
		_, listenErr := b.Listen(t.Context(), "tcp", ":80")
		for what, err := range map[string]error{
			"read": readError(server), "write": writeError(server), "accept": acceptErr, "packets": packetErr, "dial": dialErr, "listen": listenErr,
		} {
			if !errors.Is(err, syscall.ENETDOWN) && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s on the killed host: %v", what, err)
			}
		}
		if _, err := a.Dial(t.Context(), "tcp", "b:81"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial to a killed host: %v", err)
		}
		_ = server.Close()
		b.Restart()
		client, server = pair(t, n)
		mustWrite(t, client, "again")
		mustRead(t, server, "again")
	})
}

// A reset is not sent again, so after a kill across a cut the peer learns of it when it says something.
func TestKillAcrossACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, _ := pair(t, n)
		a, b := groups(n)
		cut := n.Split(a, b)
		n.Host("b").Kill()
		done := make(chan error, 1)
		go func() { done <- readError(client) }()
		time.Sleep(time.Minute)
		cut.Heal()
		time.Sleep(time.Minute)
		if len(done) > 0 {
			t.Fatalf("the peer noticed: %v", <-done)
		}
		mustWrite(t, client, "are you there?")
		within(t, 2*time.Millisecond, 4*time.Millisecond, func() {
			if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		})
	})
}

func TestKillEndsTheHostsOwnDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		a, b := groups(n)
		n.Split(a, b)
		time.AfterFunc(time.Second, n.Host("a").Kill)
		within(t, time.Second, time.Second, func() {
			if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:80"); !errors.Is(err, syscall.ENETDOWN) {
				t.Errorf("dial: %v", err)
			}
		})
	})
}

func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		b, was := n.Host("b"), n.Host("b").IP()
		b.Move()
		if b.IP() == was || !b.Up() {
			t.Errorf("%v, was %v, up: %v", b.IP(), was, b.Up())
		}
		pair(t, n) // by name
		if _, err := n.Host("a").Dial(t.Context(), "tcp", was.String()+":80"); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("dial to the old address: %v", err)
		}
	})
}

func TestPauseHoldsWhatArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		client, server := pair(t, n)
		to, err := n.Host("b").Packets(t.Context(), "udp", ":81")
		if err != nil {
			t.Fatal(err)
		}
		n.Host("b").Pause(5 * time.Second)
		mustWrite(t, client, "x")
		sendTo(t, n.Host("a"), "b", 81, "y")
		mustWrite(t, server, "it can still speak")
		within(t, 0, 2*time.Millisecond, func() { mustRead(t, client, "it can still speak") })
		within(t, 4990*time.Millisecond, 5*time.Second, func() { mustRead(t, server, "x") })
		within(t, 0, 0, func() { _, _, _ = to.ReadFrom(make([]byte, 9)) })
	})
}

func sendTo(t *testing.T, from *Host, to string, port uint16, texts ...string) {
	t.Helper()
	p, err := from.Packets(t.Context(), "udp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ips, err := from.Lookup(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if _, err := p.WriteTo([]byte(text), net.UDPAddrFromAddrPort(netip.AddrPortFrom(ips[0], port))); err != nil {
			t.Fatal(err)
		}
	}
}

// received sends count datagrams from a to b, in a network that may be busy elsewhere, and returns those that came, in order.
func received(t *testing.T, cfg Config, count int, busy bool, prepare func(*Network)) []string {
	t.Helper()
	var got []string
	synctest.Test(t, func(t *testing.T) {
		n := New(cfg)
		n.Host("a")
		p, err := n.Host("b").Packets(t.Context(), "udp", ":81")
		if err != nil {
			t.Fatal(err)
		}
		prepare(n)
		if busy {
			sendTo(t, n.Host("c"), "b", 82, "something that happens elsewhere")
			pair(t, n)
		}
		var texts []string
		for i := range count {
			texts = append(texts, fmt.Sprint(i))
		}
		sendTo(t, n.Host("a"), "b", 81, texts...)
		_ = p.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 64)
		for {
			size, from, err := p.ReadFrom(buf)
			if err != nil {
				return
			}
			if ip := from.(*net.UDPAddr).IP.String(); ip != n.Host("a").IP().String() {
				t.Errorf("from %s", ip)
			}
			got = append(got, string(buf[:size]))
		}
	})
	return got
}

func TestTheFateOfADatagramIsInTheSeed(t *testing.T) {
	cfg := Default()
	cfg.Seed, cfg.Loss = 7, 0.3
	nothing := func(*Network) {}
	first := received(t, cfg, 1000, false, nothing)
	if len(first) < 600 || len(first) > 800 || slices.IsSorted(first) {
		t.Errorf("%d of 1000 came", len(first))
	}
	again := received(t, cfg, 1000, true, nothing)
	if !slices.Equal(first, again) {
		t.Error("the same seed lost others")
	}
	cfg.Seed = 8
	if slices.Equal(first, received(t, cfg, 1000, false, nothing)) {
		t.Error("another seed lost the same ones")
	}
}

func TestAFullPortDrops(t *testing.T) {
	cfg := Default()
	if got := received(t, cfg, cfg.Queue+100, false, func(*Network) {}); len(got) != cfg.Queue {
		t.Errorf("%d came, the queue holds %d", len(got), cfg.Queue)
	}
}

func TestFaultsOfDatagrams(t *testing.T) {
	for name, tt := range map[string]struct {
		fault    func(n *Network, a, b Group) *Fault
		min, max int
	}{
		"split":     {func(n *Network, a, b Group) *Fault { return n.Split(a, b) }, 0, 0},
		"black":     {func(n *Network, a, b Group) *Fault { return n.BlackHole(a, b) }, 0, 0},
		"datagrams": {func(n *Network, a, b Group) *Fault { return n.DropDatagrams(a, b) }, 0, 0},
		"streams":   {func(n *Network, a, b Group) *Fault { return n.DropStreams(a, b) }, 100, 100},
		"other way": {func(n *Network, a, b Group) *Fault { return n.OneWay(b, a) }, 100, 100},
		"loss":      {func(n *Network, a, b Group) *Fault { return n.Slow(a, b, time.Second, 0.5) }, 30, 70},
		"healed":    {func(n *Network, a, b Group) *Fault { n.Split(a, b).Heal(); return nil }, 100, 100},
	} {
		got := received(t, Default(), 100, false, func(n *Network) { a, b := groups(n); tt.fault(n, a, b) })
		if len(got) < tt.min || len(got) > tt.max {
			t.Errorf("%s: %d of 100 came", name, len(got))
		}
	}
}

// The same things work outside of a bubble.
func TestInRealTime(t *testing.T) {
	n := New(Default())
	client, server := pair(t, n)
	a, b := groups(n)
	cut := n.Split(a, b)
	mustWrite(t, client, strings.Repeat("x", 1000))
	go cut.Heal()
	mustRead(t, server, strings.Repeat("x", 1000))
	_ = client.Close()
	if err := readError(server); err != io.EOF { //nolint:errorlint // io.Reader's contract
		t.Error(err)
	}
}
