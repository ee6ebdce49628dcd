package port

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/node/certs"
)

const limit = 10 * time.Second // of every wait; only a failure reaches it

// journal collects what a port logs.
type journal struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// machine is the kernel's network.
func machine(log io.Writer) Deps {
	var listen net.ListenConfig
	var dial net.Dialer
	return Deps{
		Listen: listen.Listen, Dial: dial.DialContext, Packets: listen.ListenPacket,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// open runs a port on loopback until the test ends.
func open(t *testing.T, cfg Config) (*Port, *journal) {
	t.Helper()
	log := &journal{}
	p, err := New(cfg, machine(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p, log
}

func ca(t *testing.T) certs.Pair {
	t.Helper()
	pair, err := certs.NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// secure is a Config with a new certificate of authority, which trusts those of trusted.
func secure(t *testing.T, authority, trusted certs.Pair) Config {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		Listen: "127.0.0.1:0", CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		CAFile: filepath.Join(dir, "ca.pem"),
	}
	write(t, cfg.CAFile, trusted.Cert)
	renew(t, cfg, authority)
	return cfg
}

func renew(t *testing.T, cfg Config, authority certs.Pair) {
	t.Helper()
	pair, err := certs.NewNode(authority, "router", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	write(t, cfg.CertFile, pair.Cert)
	write(t, cfg.KeyFile, pair.Key)
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// echo answers the connections of one protocol with the protocol's name and what it reads.
func echo(t *testing.T, p *Port, protocol Protocol) {
	t.Helper()
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := p.Listener(protocol).Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, protocol.alpn()+" ")
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { p.Close(); wait.Wait() })
}

func ask(t *testing.T, from, to *Port, protocol Protocol) {
	t.Helper()
	conn, err := from.Dial(t.Context(), protocol, to.Advertise().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	want := protocol.alpn() + " ping"
	got := make([]byte, len(want))
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProtocols(t *testing.T) {
	authority := ca(t)
	for name, cfg := range map[string]func() Config{
		"plain": Default,
		"tls":   func() Config { return secure(t, authority, authority) },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := open(t, cfg())
			b, _ := open(t, cfg())
			for protocol := range protocols {
				echo(t, b, protocol)
			}
			for protocol := range protocols {
				ask(t, a, b, protocol)
			}
			if n := b.Rejected(); n != 0 {
				t.Errorf("%d rejected", n)
			}
		})
	}
}

func TestPackets(t *testing.T) {
	a, _ := open(t, Default())
	b, _ := open(t, Default())
	if _, err := a.Packets().WriteTo([]byte("hello"), net.UDPAddrFromAddrPort(b.Advertise())); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	_ = b.Packets().SetReadDeadline(time.Now().Add(limit))
	n, from, err := b.Packets().ReadFrom(buf)
	if err != nil || string(buf[:n]) != "hello" || from.String() != a.Advertise().String() {
		t.Errorf("%q from %v: %v", buf[:n], from, err)
	}
}

// TestStrangers sends what others might, and looks for one readable line.
func TestStrangers(t *testing.T) {
	authority := ca(t)
	withTLS := secure(t, authority, authority)
	cases := []struct {
		name string
		cfg  Config
		say  string
		want string
	}{
		{"http scrape, plain", Default(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP"},
		{"http scrape, tls", withTLS, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP"},
		{"short http", Default(), "GET /", "it speaks HTTP"},
		{"tls to a plain port", Default(), "\x16\x03\x01\x02\x00\x01\x00\x01", "TLS handshake"},
		{"plain to a tls port", withTLS, Gossip.marker() + "and more", "router without peer.cert_file"},
		{"noise", Default(), "\x00\x01\x02\x03\x04\x05\x06\x07\x08", "no protocol of routers"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, log := open(t, c.cfg)
			for range 3 {
				conn, err := net.Dial("tcp", p.Advertise().String())
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(conn, c.say)
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.SetDeadline(time.Now().Add(limit))
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}
			eventually(t, "three rejected", func() bool { return p.Rejected() == 3 })
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.want) {
				t.Errorf("want one line with %q, got %s", c.want, got)
			}
		})
	}
}

// TestCheckOfOpenPort connects and goes, as load balancers do.
func TestCheckOfOpenPort(t *testing.T) {
	p, log := open(t, Default())
	conn, err := net.Dial("tcp", p.Advertise().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "it is gone", func() bool { return p.open() == 0 })
	if p.Rejected() != 0 || log.String() != "" {
		t.Errorf("rejected %d, logged %s", p.Rejected(), log)
	}
}

func (p *Port) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func TestTrust(t *testing.T) {
	ours, theirs := ca(t), ca(t)
	try := func(cfg Config, logged string) error {
		b, log := open(t, secure(t, ours, ours))
		echo(t, b, Raft)
		defer eventually(t, "the port logs "+logged, func() bool { return strings.Contains(log.String(), logged) })
		p, _ := open(t, cfg)
		conn, err := p.Dial(t.Context(), Raft, b.Advertise().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(limit))
		_, err = conn.Read(make([]byte, 1)) // the other side's judgement comes after the handshake (RFC 8446, section 4.4)
		return err
	}
	if err := try(secure(t, theirs, theirs), "tls: bad certificate"); err == nil {
		t.Error("a router trusts a port of another authority")
	}
	if err := try(secure(t, theirs, ours), "signed by unknown authority"); err == nil {
		t.Error("the port trusts a router of another authority")
	}
	if err := try(secure(t, ours, ours), ""); err != nil {
		t.Errorf("own authority: %v", err)
	}
}

func TestNoProtocolNamed(t *testing.T) {
	authority := ca(t)
	cfg := secure(t, authority, authority)
	p, log := open(t, cfg)
	tlsConfig := p.keeper.client(Raft)
	tlsConfig.NextProtos = nil
	conn, err := tls.Dial("tcp", p.Advertise().String(), tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	eventually(t, "it is refused", func() bool { return strings.Contains(log.String(), "names no protocol") })
}

func TestCloseEndsEverything(t *testing.T) {
	p, _ := open(t, Default())
	q, _ := open(t, Default())
	dialled, err := q.Dial(t.Context(), Gossip, p.Advertise().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := p.Listener(Gossip).Accept()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	_ = dialled.SetDeadline(time.Now().Add(limit))
	if _, err := dialled.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the other side still waits: %v", err)
	}
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an accepted connection is open: %v", err)
	}
	if _, err := p.Listener(Raft).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if _, err := p.Dial(t.Context(), Raft, q.Advertise().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial: %v", err)
	}
}

func TestAdvertise(t *testing.T) {
	addrs := func(list ...string) func() ([]netip.Addr, error) {
		return func() (all []netip.Addr, err error) {
			for _, a := range list {
				all = append(all, netip.MustParseAddr(a))
			}
			return all, nil
		}
	}
	cases := []struct {
		name, listen, advertise string
		own                     func() ([]netip.Addr, error)
		want                    string // without the port; an error begins with !
	}{
		{name: "what it listens on", listen: "127.0.0.1:0", want: "127.0.0.1"},
		{name: "configured", listen: "127.0.0.1:0", advertise: "192.0.2.7", want: "192.0.2.7"},
		{name: "private IPv4 first", listen: ":0", own: addrs("::1", "127.0.0.1", "fe80::1", "2001:db8::1", "192.0.2.1", "10.1.2.3", "10.1.2.4"), want: "10.1.2.3"},
		{name: "public IPv4", listen: ":0", own: addrs("2001:db8::1", "192.0.2.1"), want: "192.0.2.1"},
		{name: "IPv6 only", listen: ":0", own: addrs("fe80::1", "2001:db8::1", "fd00::5"), want: "fd00::5"},
		{name: "loopback only", listen: ":0", own: addrs("::1", "127.0.0.1"), want: "!peer.advertise"},
		{name: "no interfaces", listen: ":0", want: "!peer.advertise"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			deps := machine(io.Discard)
			deps.Interfaces = c.own
			p, err := New(Config{Listen: c.listen, Advertise: c.advertise}, deps)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			err = p.Open(t.Context())
			if want, bad := strings.CutPrefix(c.want, "!"); bad {
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v, want an error that begins with %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, number, _ := net.SplitHostPort(p.Listener(Raft).Addr().String())
			if got := p.Advertise().String(); got != net.JoinHostPort(c.want, number) {
				t.Errorf("got %s, want %s at %s", got, c.want, number)
			}
		})
	}
}

// TestNumberTaken makes UDP fail on the numbers that TCP was given first.
func TestNumberTaken(t *testing.T) {
	for _, c := range []struct {
		failures int
		ok       bool
	}{{3, true}, {bindAttempts, false}} {
		deps := machine(io.Discard)
		packets, calls := deps.Packets, 0
		deps.Packets = func(ctx context.Context, network, address string) (net.PacketConn, error) {
			if calls++; calls <= c.failures {
				return nil, errors.New("address already in use")
			}
			return packets(ctx, network, address)
		}
		p, err := New(Default(), deps)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Open(t.Context()); (err == nil) != c.ok {
			t.Errorf("after %d failures: %v", c.failures, err)
		}
		p.Close()
	}
}

func TestValidate(t *testing.T) {
	cases := []struct {
		cfg  Config
		want string // beginning of the error; empty: none
	}{
		{Default(), ""},
		{Config{Listen: "localhost:7946"}, ""},
		{Config{Listen: "[::1]:7946"}, ""},
		{Config{Listen: "10.0.0.1:7946"}, "peer.listen: \"10.0.0.1:7946\" is reachable"},
		{Config{Listen: ":7946"}, "peer.listen"},
		{Config{Listen: ":7946", Insecure: true}, ""},
		{Config{Listen: ":7946", CertFile: "c", KeyFile: "k", CAFile: "a"}, ""},
		{Config{Listen: "127.0.0.1:0", CertFile: "c"}, "peer.cert_file"},
		{Config{Listen: "nowhere"}, "peer.listen"},
		{Config{Listen: "127.0.0.1:0", Advertise: "10.0.0.1:80"}, ""},
		{Config{Listen: "127.0.0.1:0", Advertise: "router-1"}, "peer.advertise"},
		{Config{Listen: "127.0.0.1:0", Advertise: "0.0.0.0"}, "peer.advertise"},
	}
	for _, c := range cases {
		err := c.cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}
