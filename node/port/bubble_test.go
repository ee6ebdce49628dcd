package port

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// bubblePort runs a port on a host of a network in memory.
func bubblePort(t *testing.T, h *simnet.Host, cfg Config) (*Port, *journal) {
	t.Helper()
	log := &journal{}
	p, err := New(cfg, Deps{Listen: h.Listen, Dial: h.Dial, Packets: h.Packets, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context()) }()
	t.Cleanup(func() {
		p.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p, log
}

// TestSilence opens more connections than may be in a handshake and says nothing on them.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(simnet.Default())
		p, log := bubblePort(t, net.Host("a"), Config{Listen: net.Host("a").IP().String() + ":7946", Insecure: true})
		other, _ := bubblePort(t, net.Host("b"), Config{Listen: net.Host("b").IP().String() + ":7946", Insecure: true})
		start := time.Now()
		for range handshakesMax {
			conn, err := net.Host("c").Dial(t.Context(), "tcp", p.Advertise().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		conn, err := other.Dial(t.Context(), RPC, p.Advertise().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := p.Listener(RPC).Accept(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < handshakeLimit || took > handshakeLimit+time.Second {
			t.Errorf("a router was let in after %s, want about %s", took, handshakeLimit)
		}
		time.Sleep(time.Second) // the others were accepted a little later
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "it said nothing for 5s") {
			t.Errorf("logged %s", got)
		}
		if n := p.Rejected(); n != handshakesMax {
			t.Errorf("%d rejected, want %d", n, handshakesMax)
		}
	})
}

// TestRotation replaces a router's certificate and then both sides' authority, without a restart.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(simnet.Default())
		first := ca(t)
		cfgA, cfgB := secure(t, first, first), secure(t, first, first)
		cfgA.Listen, cfgB.Listen = net.Host("a").IP().String()+":7946", net.Host("b").IP().String()+":7946"
		a, _ := bubblePort(t, net.Host("a"), cfgA)
		b, logB := bubblePort(t, net.Host("b"), cfgB)
		echo(t, b, Raft)
		ask(t, a, b, Raft)

		second := ca(t)
		both := append(append([]byte(nil), first.Cert...), second.Cert...)
		write(t, cfgA.CAFile, both)
		write(t, cfgB.CAFile, both)
		renew(t, cfgB, second)
		touch(t, cfgB)
		time.Sleep(reread)
		ask(t, a, b, Raft)
		if !strings.Contains(logB.String(), "peer certificate replaced") {
			t.Errorf("not replaced: %s", logB)
		}

		write(t, cfgB.CertFile, []byte("nonsense"))
		for range 3 {
			time.Sleep(reread)
			ask(t, a, b, Raft)
		}
		if got := strings.Count(logB.String(), "not replaced"); got != 1 {
			t.Errorf("a bad file was reported %d times: %s", got, logB)
		}
	})
}

// touch makes sure that a file's time differs from before, however coarse the file system's clock is.
func touch(t *testing.T, cfg Config) {
	t.Helper()
	for _, name := range []string{cfg.CertFile, cfg.KeyFile, cfg.CAFile} {
		at := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQueueFull lets more connections come than are accepted.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := simnet.New(simnet.Default())
		p, log := bubblePort(t, net.Host("a"), Config{Listen: net.Host("a").IP().String() + ":7946", Insecure: true})
		other, _ := bubblePort(t, net.Host("b"), Config{Listen: net.Host("b").IP().String() + ":7946", Insecure: true})
		for range queueMax + 1 {
			conn, err := other.Dial(t.Context(), Gossip, p.Advertise().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if n := p.Rejected(); n != 1 || !strings.Contains(log.String(), "too many connections wait") {
			t.Errorf("%d rejected: %s", n, log)
		}
	})
}
