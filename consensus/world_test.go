package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/sim/simnet"
)

// world is a set of replicas on a network in memory, inside a bubble. Gossip, the
// feed of epochs and the calls between replicas are modelled: they reach whom the
// network would let them reach.
type world struct {
	t      *testing.T
	seed   uint64
	net    *simnet.Network
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex // guards what follows
	replicas []*replica
	apart    map[[2]string]bool // hosts
	blind    map[[2]string]bool // hosts whose gossip does not meet, though they could talk
	epochs   map[string]uint64  // digest by cluster/epoch id: one map for each
}

// replica is one process start of a router.
type replica struct {
	*Log
	w      *world
	host   *simnet.Host
	name   string
	addr   string
	cancel context.CancelFunc
	done   chan error
	up     atomic.Bool
	leave  atomic.Bool
	epoch  atomic.Pointer[routing.Epoch] // by consensus or the feed
	opts   options
	// breakable makes the data file refuse writes.
	breakable *atomic.Bool
	stale     atomic.Pointer[[]Member] // what its gossip believes instead of the truth
}

// patience is short so that less time has to be simulated.
const patience = 15 * time.Second

type options struct {
	expect    int
	seeds     func() (int, int)
	dir       string
	unchecked bool
	gap       time.Duration
}

// bubble runs fn in a world of its own, and stops everything after it.
func bubble(t *testing.T, seed uint64, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := simnet.Default()
		cfg.Seed = seed
		level := slog.LevelError
		if os.Getenv("WARMRING_TEST_LOG") != "" {
			level = slog.LevelDebug
		}
		w := &world{
			t: t, seed: seed, net: simnet.New(cfg), log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
			apart: map[[2]string]bool{}, blind: map[[2]string]bool{}, epochs: map[string]uint64{}, done: make(chan struct{}),
		}
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(t.Context())
		go w.gossip(ctx)
		t.Cleanup(w.close)
		fn(w)
	})
}

func (w *world) close() {
	w.cancel()
	<-w.done
	for _, r := range w.all() {
		r.stop()
	}
	time.Sleep(15 * time.Second) // what raft's transport leaves behind ends
}

func (w *world) all() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*replica
	for _, r := range w.replicas {
		if r.up.Load() {
			out = append(out, r)
		}
	}
	return out
}

// start begins a replica on the named host.
func (w *world) start(host string, o options) *replica {
	w.t.Helper()
	h := w.net.Host(host)
	l, err := h.Listen(w.t.Context(), "tcp", ":7000")
	if err != nil {
		w.t.Fatal(err)
	}
	suffix, err := newID(h.Random())
	if err != nil {
		w.t.Fatal(err)
	}
	r := &replica{
		w: w, host: h, name: host + "-" + suffix[:8], opts: o, done: make(chan error, 1),
		addr: net.JoinHostPort(h.IP().String(), "7000"),
	}
	cfg := Default()
	cfg.DataDir = o.dir
	cfg.Commit = 100 * time.Millisecond // less idle traffic to simulate
	cfg.NewGenerationAfter = patience
	r.Log, err = New(cfg, Deps{
		Listener: l, Name: r.name, Expect: o.expect, Gap: o.gap, Log: w.log.With("router", r.name), Random: h.Random(),
		Dial:  func(ctx context.Context, address string) (net.Conn, error) { return h.Dial(ctx, "tcp", address) },
		Peers: calls{r}, First: firstFleet, Latest: r.epoch.Load, OnEpoch: func(e *routing.Epoch, _ []Step) { r.hold(e) }, OnChange: func() {},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r.unchecked = o.unchecked
	r.breakable = new(atomic.Bool)
	if f, ok := r.vault.(*file); ok {
		f.write = func(fn func(*bbolt.Tx) error) error {
			if r.breakable.Load() {
				return errors.New("no space left")
			}
			return f.db.Update(fn)
		}
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.up.Store(true)
	go func() { r.done <- r.Run(ctx) }()
	w.mu.Lock()
	w.replicas = append(w.replicas, r)
	w.mu.Unlock()
	return r
}

// stop ends the process in good order.
func (r *replica) stop() {
	if err := r.end(); err != nil {
		r.w.t.Errorf("%s: Run: %v", r.name, err)
	}
}

func (r *replica) end() error {
	if !r.up.Swap(false) {
		return nil
	}
	r.cancel()
	return <-r.done
}

// kill ends it without a word to anyone.
func (r *replica) kill() {
	r.host.Kill()
	_ = r.end() // its listener is gone
	r.host.Restart()
}

func backendN(i int) routing.Backend {
	return routing.Backend{
		ID: fmt.Sprintf("gpu-%d", i), URL: fmt.Sprintf("http://10.1.0.%d:8000", i+1),
		Endpoint: "demo", Variant: "AllTraffic", Weight: 1, State: routing.Active,
	}
}

func firstFleet() (*routing.Epoch, error) {
	c := routing.Change{PutEndpoints: []routing.Endpoint{{Name: "demo", Variants: []routing.Variant{{Name: "AllTraffic", Weight: 1, Policy: routing.Policy{Strategy: routing.Random}}}}}}
	for i := range 3 {
		c.PutBackends = append(c.PutBackends, backendN(i))
	}
	return routing.NewEpoch(1, 42).Apply(c)
}

// hold keeps the newest epoch, and checks that one id never means two maps.
func (r *replica) hold(e *routing.Epoch) {
	id := r.Status().Cluster + "/" + e.ID()
	r.w.mu.Lock()
	digest, known := r.w.epochs[id]
	r.w.epochs[id] = e.Digest()
	r.w.mu.Unlock()
	if known && digest != e.Digest() {
		r.w.t.Errorf("%s: epoch %s has two digests", r.name, id)
	}
	for {
		old := r.epoch.Load()
		if old != nil && old.Compare(e) >= 0 || r.epoch.CompareAndSwap(old, e) {
			return
		}
	}
}

// split parts the hosts of a from those of b; the function heals it.
func (w *world) split(a, b []string) func() {
	w.set(w.apart, a, b, true)
	fault := w.net.Split(w.hosts(a), w.hosts(b))
	return func() {
		w.set(w.apart, a, b, false)
		fault.Heal()
	}
}

func (w *world) set(m map[[2]string]bool, a, b []string, v bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range a {
		for _, y := range b {
			m[[2]string{x, y}], m[[2]string{y, x}] = v, v
		}
	}
}

func (w *world) hosts(names []string) (g simnet.Group) {
	for _, n := range names {
		g = append(g, w.net.Host(n))
	}
	return g
}

func (w *world) reach(a, b *replica) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.apart[[2]string{a.host.Name(), b.host.Name()}]
}

func (w *world) sees(a, b *replica) bool {
	w.mu.Lock()
	blind := w.blind[[2]string{a.host.Name(), b.host.Name()}]
	w.mu.Unlock()
	return !blind && w.reach(a, b)
}

// gossip is membership with a delay of up to 100 ms, and the feed of epochs.
func (w *world) gossip(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		all := w.all()
		for _, r := range all {
			var members []Member
			for _, o := range all {
				if w.sees(r, o) {
					members = append(members, o.member())
				}
			}
			if stale := r.stale.Load(); stale != nil {
				members = *stale
			}
			slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
			total, reached := 0, 0
			if r.opts.seeds != nil {
				total, reached = r.opts.seeds()
			}
			r.SetMembers(members, total, reached)
			w.feed(r, all)
		}
	}
}

func (w *world) feed(r *replica, all []*replica) {
	for _, o := range all {
		e := o.epoch.Load()
		if e != nil && w.sees(r, o) && o.Status().Cluster == r.Status().Cluster {
			r.hold(e)
		}
	}
}

func (r *replica) member() Member {
	st := r.Status()
	m := Member{
		Name: r.name, Server: st.Server, Address: r.addr, Cluster: st.Cluster, Generation: st.Generation,
		Blank: st.Role == Blank, Leaving: r.leave.Load(),
	}
	if e := r.epoch.Load(); e != nil {
		m.Number = e.Number()
	}
	return m
}

// calls are the direct calls between replicas.
type calls struct{ from *replica }

func (c calls) to(ctx context.Context, address string) (*replica, error) {
	for _, r := range c.from.w.all() {
		if r.addr == address && c.from.w.reach(c.from, r) {
			time.Sleep(2 * time.Millisecond)
			return r, ctx.Err()
		}
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c calls) Hello(ctx context.Context, address string) (Hello, error) {
	r, err := c.to(ctx, address)
	if err != nil {
		return Hello{}, err
	}
	return r.Hello(), nil
}

func (c calls) Promise(ctx context.Context, address string, b Ballot) error {
	r, err := c.to(ctx, address)
	if err != nil {
		return err
	}
	return r.Promised(b)
}

func (c calls) Image(ctx context.Context, address string) (routing.Image, error) {
	r, err := c.to(ctx, address)
	if err != nil {
		return routing.Image{}, err
	}
	e := r.epoch.Load()
	if e == nil {
		return routing.Image{}, errors.New("no epoch")
	}
	return e.Image(), nil
}

// within waits in virtual time until cond holds, and fails after d.
func (w *world) within(d time.Duration, what string, cond func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !cond() {
		if time.Since(began) > d {
			w.t.Fatalf("not within %v: %s\n%s", d, what, w.describe())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

func (w *world) describe() string {
	var b strings.Builder
	for _, r := range w.all() {
		st := r.Status()
		fmt.Fprintf(&b, "%s: %+v epoch %v\n", r.name, st, r.epoch.Load())
	}
	return b.String()
}

// leaders are the replicas that lead a founded cluster, among those given or all.
func (w *world) leaders(among ...*replica) []*replica {
	if len(among) == 0 {
		among = w.all()
	}
	var out []*replica
	for _, r := range among {
		if st := r.Status(); st.Role == Leader && st.Quorum {
			out = append(out, r)
		}
	}
	return out
}

// settled waits for one cluster with one leader in which all have an epoch.
func (w *world) settled(d time.Duration, voters int) {
	w.t.Helper()
	among := w.all()
	w.within(d, "one settled cluster", func() bool {
		leaders := w.leaders(among...)
		if len(leaders) != 1 || len(leaders[0].Status().Voters) != voters {
			return false
		}
		lead := leaders[0].Status()
		for _, voter := range lead.Voters {
			if !slices.ContainsFunc(among, func(r *replica) bool { return r.Status().Server == voter }) {
				return false
			}
		}
		for _, r := range among {
			if st := r.Status(); st.Cluster != lead.Cluster || st.Generation != lead.Generation || !st.Quorum || r.epoch.Load() == nil {
				return false
			}
		}
		return true
	})
}

// put proposes another backend through whoever leads, until it is agreed on.
func (w *world) put(d time.Duration, i int, among ...*replica) *routing.Epoch {
	w.t.Helper()
	var got *routing.Epoch
	id := fmt.Sprintf("put-%d", i)
	w.within(d, "a committed proposal", func() bool {
		for _, r := range w.leaders(among...) {
			ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
			e, err := r.Propose(ctx, Proposal{ID: id, Change: routing.Change{PutBackends: []routing.Backend{backendN(i)}}})
			cancel()
			if err == nil {
				got = e
				return true
			}
		}
		return false
	})
	return got
}

func hasBackend(e *routing.Epoch, i int) bool {
	return e != nil && slices.ContainsFunc(e.Backends(), func(b routing.Backend) bool { return b.ID == backendN(i).ID })
}
