package gossip_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/gossip"
	"github.com/warmring/warmring/node/certs"
	"github.com/warmring/warmring/node/port"
)

// TestOverPort lets routers gossip over their peer ports: real sockets, TLS and encrypted packets.
func TestOverPort(t *testing.T) {
	now := time.Now()
	ca, err := certs.NewCA(now)
	if err != nil {
		t.Fatal(err)
	}
	cfg := gossip.Default()
	cfg.KeyFile = file(t, "key", []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))))
	var seeds []netip.AddrPort
	var routers []*gossip.Mesh
	for i := range 3 {
		pair, err := certs.NewNode(ca, fmt.Sprint("router-", i), now)
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, port.Config{
			Listen: "127.0.0.1:0", CertFile: file(t, "cert", pair.Cert), KeyFile: file(t, "key", pair.Key), CAFile: file(t, "ca", ca.Cert),
		})
		m, err := gossip.New(cfg, gossip.Deps{
			Name: fmt.Sprint("router-", i), Label: "test", Listener: p.Listener(port.Gossip), Packets: p.Packets(), Advertise: p.Advertise(),
			Dial:  func(ctx context.Context, at string) (net.Conn, error) { return p.Dial(ctx, port.Gossip, at) },
			Seeds: func(context.Context) ([]netip.AddrPort, error) { return seeds[:1], nil },
			Log:   slog.New(slog.DiscardHandler), Random: rand.Reader,
		})
		if err != nil {
			t.Fatal(err)
		}
		seeds, routers = append(seeds, p.Advertise()), append(routers, m)
	}
	for _, m := range routers {
		run(t, m.Run)
	}
	eventually(t, "all see all", func(m *gossip.Mesh) bool { return len(m.Members()) == len(routers) }, routers)
	if err := routers[1].Announce("k", []byte("v"), time.Minute); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fact is everywhere", func(m *gossip.Mesh) bool { return len(m.Facts()) == 1 }, routers)
	if err := routers[2].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one has left", func(m *gossip.Mesh) bool { return len(m.Members()) == 2 }, routers[:2])
}

func open(t *testing.T, cfg port.Config) *port.Port {
	t.Helper()
	var listen net.ListenConfig
	var dial net.Dialer
	p, err := port.New(cfg, port.Deps{Listen: listen.Listen, Dial: dial.DialContext, Packets: listen.ListenPacket, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, p.Run)
	return p
}

// run runs something until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func eventually(t *testing.T, what string, ok func(*gossip.Mesh) bool, of []*gossip.Mesh) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); slices.ContainsFunc(of, func(m *gossip.Mesh) bool { return !ok(m) }); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
