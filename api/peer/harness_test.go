package peer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/gossip/places"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/hot"
	"github.com/warmring/warmring/test/sim/simnet"
)

// cluster is some routers on one network, in a bubble.
type cluster struct {
	*testing.T
	net     *simnet.Network
	routers []*router
}

// router is all of this package on one host, with a node's part played by a test.
type router struct {
	cluster *cluster
	host    *simnet.Host
	name    string
	address string
	tracer  trace.TracerProvider

	client    *Client
	mesh      *Mesh
	feed      *Feed
	history   *History
	publisher *loads.Publisher
	places    *places.Log // may be set before start; nil: as in a router that knows of no placements
	onPlaces  func(string, []places.Placement, time.Time)
	hot       func(float64, int) hot.Report // set before start
	changed   chan struct{}
	stop      context.CancelFunc
	work      sync.WaitGroup

	mu         sync.Mutex // guards what follows
	dialled    []net.Conn
	label, id  string
	sums       map[loads.Key]loads.Sum
	versions   map[string]Version
	sources    []Source
	epochs     []Version // as they came from the feed
	mismatches []string
	slow       time.Duration // what the node takes for each epoch
	propose    func(context.Context, Proposal) (Version, error)
}

// inBubble runs a test on a new network.
func inBubble(t *testing.T, names int, test func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, net: simnet.New(simnet.Default())}
		for i := range names {
			c.add(fmt.Sprintf("r%02d", i)).start()
		}
		c.know(c.routers...)
		t.Cleanup(c.stop)
		test(c)
	})
}

// stop ends all; whatever is left then fails the bubble.
func (c *cluster) stop() {
	for _, r := range c.routers {
		r.halt()
	}
}

func (c *cluster) add(name string) *router {
	r := &router{
		cluster: c, host: c.net.Host(name), name: name, address: name + ":7000", label: "warmring", id: "c1",
		tracer: tracenoop.NewTracerProvider(),
	}
	c.routers = append(c.routers, r)
	return r
}

// know tells all routers who is a member.
func (c *cluster) know(members ...*router) {
	for _, r := range c.routers {
		r.know(members...)
	}
}

func (r *router) know(members ...*router) {
	addresses := map[string]string{}
	for _, m := range members {
		addresses[m.name] = m.address
	}
	r.client.SetMembers(slicesOf(addresses))
	r.mesh.SetMembers(addresses)
}

func slicesOf(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func (r *router) identity() Identity {
	return Identity{Name: r.name, Label: r.label, Cluster: func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.id
	}}
}

func (r *router) start() {
	t := r.cluster.T
	r.sums, r.versions = map[loads.Key]loads.Sum{}, map[string]Version{}
	r.history = NewHistory(routing.NewEpoch(1, 42))
	r.publisher = loads.NewPublisher(r.name)
	r.changed = make(chan struct{}, 1)
	log := slog.New(slog.DiscardHandler)
	r.client = NewClient(ClientConfig{
		Identity: r.identity(), Tracer: r.tracer, Propagator: propagation.TraceContext{},
		Dial: r.dial,
	})
	r.mesh = NewMesh(MeshConfig{
		Client: r.client, Identity: r.identity(), Publisher: r.publisher, Changed: r.changed, Collect: func(time.Time) {},
		Places: r.places, OnPlaces: r.onPlaces,
		Version: func() Version { return VersionOf(r.history.Latest()) }, OnSums: r.onSums, OnVersion: r.onVersion, Log: log,
	})
	r.feed = NewFeed(FeedConfig{
		Client: r.client, Name: r.name, History: r.history, Sources: r.onSources, OnEpoch: r.onEpoch, OnMismatch: r.onMismatch, Log: log,
	})
	listener, err := r.host.Listen(t.Context(), "tcp", ":7000")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(ServerConfig{
		Listener: listener, Identity: r.identity(), Group: node{r}, Fleet: node{r}, History: r.history, Mesh: r.mesh, Hot: r.hot,
		Tracer: r.tracer, Propagator: propagation.TraceContext{}, Log: log,
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = stop
	for _, run := range []func(context.Context) error{server.Run, r.mesh.Run, r.feed.Run} {
		r.work.Go(func() {
			if err := run(ctx); err != nil && r.host.Up() {
				t.Errorf("%s: %v", r.name, err)
			}
		})
	}
	synctest.Wait()
}

func (r *router) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := r.host.Dial(ctx, "tcp", address)
	if err == nil {
		r.mu.Lock()
		r.dialled = append(r.dialled, conn)
		r.mu.Unlock()
	}
	return conn, err
}

func (r *router) halt() {
	r.stop()
	r.work.Wait()
	r.client.Close()
}

// kill is a process that ends: nothing is heard from it any more.
func (r *router) kill() {
	r.host.Kill()
	r.halt()
}

func (r *router) onSums(sums []loads.Sum, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sums {
		if s == (loads.Sum{Key: s.Key}) {
			delete(r.sums, s.Key)
		} else {
			r.sums[s.Key] = s
		}
	}
}

func (r *router) onVersion(name string, v Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[name] = v
}

func (r *router) onSources() []Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sources
}

func (r *router) onMismatch(source string, ours, theirs Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mismatches = append(r.mismatches, fmt.Sprintf("%s: %s, not %s", source, theirs, ours))
}

func (r *router) onEpoch(e *routing.Epoch, steps []Step) {
	r.mu.Lock()
	r.epochs = append(r.epochs, VersionOf(e))
	slow := r.slow
	r.mu.Unlock()
	time.Sleep(slow)
	r.history.Add(e, steps...)
}

// set says what this router has in flight on a backend.
func (r *router) set(backend string, inflight int) {
	r.publisher.Set(loads.Entry{ID: backend, Incarnation: 1, InFlight: inflight})
	notify(r.changed)
}

// inflight is what this router believes that the others have, over all backends.
func (r *router) inflight() (sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sums {
		sum += s.InFlight
	}
	return sum
}

func (r *router) table() map[loads.Key]loads.Sum {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sums)
}

// breakStream resets the connection that the router dialled last.
func (r *router) breakStream() {
	r.mu.Lock()
	conn := r.dialled[len(r.dialled)-1].(*simnet.Conn)
	r.mu.Unlock()
	_ = conn.SetLinger(0) // close with a reset
	conn.Close()
}

// within waits for a condition, in virtual time.
func (c *cluster) within(d time.Duration, what string, ok func() bool) time.Duration {
	c.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return time.Since(began)
		}
		if time.Since(began) > d {
			c.Fatalf("not within %v: %s", d, what)
		}
	}
}

// complete waits until all routers hear all others.
func (c *cluster) complete(d time.Duration) {
	c.Helper()
	c.within(d, "all hear all", func() bool {
		for _, r := range c.routers {
			if r.host.Up() && !r.mesh.complete(time.Now()) {
				return false
			}
		}
		return true
	})
}

// node plays the agreement for the server.
type node struct{ *router }

func (n node) Hello() Hello {
	return Hello{
		Server: "s-" + n.name, Name: n.name, Cluster: n.id, Generation: 1, Number: 7, Blank: true, Expect: 3, Quorum: true,
		Members: []string{"a", "b"},
	}
}

func (n node) Promise(_ context.Context, b Ballot) error {
	if b.Candidate == "s-bad" {
		return fmt.Errorf("promised to %s already", "s-other")
	}
	return nil
}

func (n node) Propose(ctx context.Context, p Proposal) (Version, error) { return n.propose(ctx, p) }

func (n node) Renew(_ context.Context, l Lease) error {
	if l.TTL != 1500*time.Millisecond || l.Backend.ID != "gpu-1" {
		return fmt.Errorf("got %+v", l)
	}
	return nil
}
