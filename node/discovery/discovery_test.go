package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/node/plan"
)

// names is a name server.
type names struct {
	t *testing.T // of the bubble

	mu      sync.Mutex // guards all below
	hosts   map[string][]netip.Addr
	records map[string][]*net.SRV
	err     error
	asked   int
	changes int
	log     bytes.Buffer
}

func (n *names) Write(p []byte) (int, error) { // of the log
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}

func (n *names) deps() Deps {
	return Deps{
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.asked++
			return n.hosts[host], n.err
		},
		LookupSRV: func(_ context.Context, name string) ([]*net.SRV, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.records[name], n.err
		},
		OnChange: func() { n.mu.Lock(); n.changes++; n.mu.Unlock() },
		Log:      slog.New(slog.NewTextHandler(n, nil)),
	}
}

func (n *names) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changes, n.asked = 0, 0
	n.log.Reset()
	f()
}

// seen returns what was counted and logged since the last set.
func (n *names) seen() (changes, asked int, log string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes, n.asked, n.log.String()
}

func inBubble(t *testing.T, dns []DNSConfig, f func(n *names, d *Discovery)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &names{t: t, hosts: map[string][]netip.Addr{}, records: map[string][]*net.SRV{}}
		cfg := Default()
		cfg.DNS = dns
		d := New(cfg, n.deps())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		f(n, d)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func ids(found []plan.Found) string {
	var all []string
	for _, f := range found {
		all = append(all, f.ID)
	}
	return strings.Join(all, " ")
}

func addrs(list ...string) []netip.Addr {
	var all []netip.Addr
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func TestAddresses(t *testing.T) {
	e := entry("models", 8000)
	e.Endpoint, e.Variant, e.Weight, e.Scheme = "chat", "main", 2, "https"
	inBubble(t, []DNSConfig{e}, func(n *names, d *Discovery) {
		t := n.t
		if found, broken := d.Found(); len(found) != 0 || !broken["dns:models"] {
			t.Errorf("before the first answer: %v %v", found, broken)
		}
		n.set(func() { n.hosts["models"] = addrs("10.0.0.2", "10.0.0.1", "fd00::1", "::ffff:10.0.0.2") })
		time.Sleep(6 * time.Second)
		found, broken := d.Found()
		if got, want := ids(found), "10.0.0.1:8000 10.0.0.2:8000 [fd00::1]:8000"; got != want || broken["dns:models"] {
			t.Errorf("%s; want %s; %v", got, want, broken)
		}
		want := plan.Found{ID: "10.0.0.1:8000", URL: "https://10.0.0.1:8000", Endpoint: "chat", Variant: "main", Weight: 2, Source: "dns:models"}
		if diff := cmp.Diff(want, found[0]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSRV(t *testing.T) {
	e := entry("_vllm._tcp.models", 0)
	e.SRV = true
	inBubble(t, []DNSConfig{e}, func(n *names, d *Discovery) {
		t := n.t
		n.set(func() {
			n.records["_vllm._tcp.models"] = []*net.SRV{{Target: "GPU-1.models.", Port: 8001}, {Target: "gpu-0.models.", Port: 8000}, {Target: "."}}
		})
		time.Sleep(6 * time.Second)
		found, _ := d.Found()
		if got, want := ids(found), "gpu-0.models:8000 gpu-1.models:8001"; got != want || found[0].URL != "http://gpu-0.models:8000" {
			t.Errorf("%s; want %s", got, want)
		}
	})
}

// Discovery returns nothing: the last list stays; it is reported, once (scenario 23).
func TestBroken(t *testing.T) {
	many := make([]netip.Addr, maxAnswers+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	for name, b := range map[string]struct {
		hosts []netip.Addr
		err   error
	}{"error": {nil, errors.New("no such host")}, "empty": {nil, nil}, "part and error": {addrs("10.0.0.9"), errors.New("cut off")}, "flood": {many, nil}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []DNSConfig{entry("models", 80)}, func(n *names, d *Discovery) {
				t := n.t
				n.set(func() { n.hosts["models"] = addrs("10.0.0.1", "10.0.0.2") })
				time.Sleep(11 * time.Second)
				n.set(func() { n.hosts["models"], n.err = b.hosts, b.err })
				time.Sleep(10 * time.Minute)
				found, broken := d.Found()
				changes, _, log := n.seen()
				if ids(found) != "10.0.0.1:80 10.0.0.2:80" || !broken["dns:models"] || changes != 1 {
					t.Errorf("%s %v after %d changes", ids(found), broken, changes)
				}
				if got := strings.Count(log, "discovery failed"); got != 1 {
					t.Errorf("logged %d times: %s", got, log)
				}
				n.set(func() { n.hosts["models"], n.err = addrs("10.0.0.2"), nil })
				time.Sleep(6 * time.Second)
				found, broken = d.Found()
				changes, _, log = n.seen()
				if ids(found) != "10.0.0.2:80" || broken["dns:models"] || changes != 1 {
					t.Errorf("%s %v after %d changes", ids(found), broken, changes)
				}
				if !strings.Contains(log, "discovery answers again") {
					t.Error(log)
				}
			})
		})
	}
}

// Another order is no change; each name is looked up once an interval, give or take a tenth.
func TestInterval(t *testing.T) {
	inBubble(t, []DNSConfig{entry("models", 80)}, func(n *names, d *Discovery) {
		t := n.t
		n.set(func() { n.hosts["models"] = addrs("10.0.0.1", "10.0.0.2") })
		time.Sleep(6 * time.Second)
		n.set(func() { n.hosts["models"] = addrs("10.0.0.2", "10.0.0.1") })
		time.Sleep(500 * time.Second)
		if changes, asked, _ := n.seen(); changes != 0 || asked < 90 || asked > 111 {
			t.Errorf("%d changes, asked %d times in 100 intervals", changes, asked)
		}
	})
}

// A name server that does not answer delays neither the other names nor the end.
func TestSilentNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &names{}
		deps := n.deps()
		deps.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host == "silent" {
				<-ctx.Done()
				return nil, fmt.Errorf("lookup: %w", ctx.Err())
			}
			return addrs("10.0.0.1"), nil
		}
		cfg := Default()
		cfg.DNS = []DNSConfig{entry("silent", 80), entry("models", 80)}
		d := New(cfg, deps)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		if found, broken := d.Found(); ids(found) != "10.0.0.1:80" || !broken["dns:silent"] || broken["dns:models"] {
			t.Errorf("%v %v", found, broken)
		}
		start := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("ends after %s", d)
		}
	})
}
