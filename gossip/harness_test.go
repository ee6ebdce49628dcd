package gossip

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

const testPort = 7946

// journal collects what a router logs.
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

func (j *journal) lines(part string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// world is a network with routers that gossip. All of it lives in one bubble.
type world struct {
	onMembers func(members []Member, reached int) // may be nil
	t         *testing.T
	net       *simnet.Network
	cfg       Config
	label     string
	seeds     []string // host names
	started   int
	running   []*router
}

// router is one start of a Mesh on a host.
type router struct {
	*Mesh
	host    *simnet.Host
	name    string
	journal *journal
	stop    func() // ends Run and waits for it; may be called twice
}

// bubble runs test in a world of its own and ends all routers before time stops.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := simnet.Default()
		net.Seed = rand.Uint64()
		t.Logf("seed %d", net.Seed)
		w := &world{t: t, net: simnet.New(net), cfg: Default(), label: "test", seeds: []string{"r0", "r1", "r2"}}
		t.Cleanup(func() {
			for _, r := range w.running {
				r.host.Kill()
				r.stop()
			}
			time.Sleep(15 * time.Second) // the last probes of memberlist
		})
		test(w)
	})
}

// start starts a router on a host, under a name that is new.
func (w *world) start(host string) *router {
	w.t.Helper()
	r := w.build(host)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("%s: Run: %v", r.name, err)
		}
	})
	w.running = append(w.running, r)
	return r
}

func (w *world) build(host string) *router {
	w.t.Helper()
	h := w.net.Host(host)
	address := fmt.Sprintf(":%d", testPort)
	listener, err := h.Listen(w.t.Context(), "tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	packets, err := h.Packets(w.t.Context(), "udp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.started++
	seeds := slices.Clone(w.seeds)
	r := &router{host: h, name: fmt.Sprintf("%s-%d", host, w.started), journal: &journal{}}
	r.Mesh, err = New(w.cfg, Deps{
		Name: r.name, Label: w.label, Listener: listener, Packets: packets,
		Dial:      func(ctx context.Context, at string) (net.Conn, error) { return h.Dial(ctx, "tcp", at) },
		Advertise: netip.AddrPortFrom(h.IP(), testPort),
		Seeds: func(ctx context.Context) (all []netip.AddrPort, err error) {
			for _, name := range seeds {
				ips, lookupErr := h.Lookup(ctx, name)
				if lookupErr != nil {
					err = lookupErr
				}
				for _, ip := range ips {
					all = append(all, netip.AddrPortFrom(ip, testPort))
				}
			}
			return all, err
		},
		OnMembers: func(members []Member, _, reached int) {
			if w.onMembers != nil {
				w.onMembers(members, reached)
			}
		},
		Log: slog.New(slog.NewTextHandler(r.journal, nil)), Random: h.Random(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// cluster starts n routers on hosts r0, r1 and so on, waits until all see all, and lets them say that they are one cluster.
func (w *world) cluster(n int) []*router {
	w.t.Helper()
	for i := range n { // the seeds' names must be there for the first one
		w.net.Host(fmt.Sprintf("r%d", i))
	}
	var routers []*router
	for i := range n {
		routers = append(routers, w.start(fmt.Sprintf("r%d", i)))
	}
	w.within(10*time.Second, "all see all", func() bool { return see(routers, routers) })
	for _, r := range routers {
		r.SetMeta(Meta{Cluster: w.label})
	}
	return routers
}

// see says whether each of the viewers has exactly the members.
func see(viewers, members []*router) bool {
	want := names(members)
	return !slices.ContainsFunc(viewers, func(r *router) bool { return !slices.Equal(memberNames(r), want) })
}

func names(routers []*router) (all []string) {
	for _, r := range routers {
		all = append(all, r.name)
	}
	slices.Sort(all)
	return all
}

func memberNames(r *router) (all []string) {
	for _, m := range r.Members() {
		all = append(all, m.Name)
	}
	return all
}

// within waits for a condition, for at most d of virtual time, and returns how long it took.
func (w *world) within(d time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > d {
			for _, r := range w.running {
				w.t.Logf("%s sees %v", r.name, memberNames(r))
			}
			w.t.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

func hosts(routers []*router) (all simnet.Group) {
	for _, r := range routers {
		all = append(all, r.host)
	}
	return all
}

// at is the address of a member by its name.
func (w *world) at(name string) string {
	host, _, _ := strings.Cut(name, "-")
	return netip.AddrPortFrom(w.net.Host(host).IP(), testPort).String()
}

// member is another router as r sees it; the zero Member if it is none.
func (r *router) member(name string) Member {
	for _, m := range r.Members() {
		if m.Name == name {
			return m
		}
	}
	return Member{}
}
