package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/gossip"
	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/node/discovery"
	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/node/port"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/routing"
)

// replica is this router's part in the cluster. It knows the other routers (gossip), agrees with them on the epoch
// (consensus; the feed, for who is no voter), shares loads with them (mesh), probes the backends that it observes, and
// leads the fleet when it is its turn.
type replica struct {
	cfg    Config
	world  World
	log    *slog.Logger
	tracer trace.TracerProvider
	prop   propagation.TextMapPropagator
	name   string // unique to this start: gossip's name, and the origin of loads
	salt   uint64 // of a cluster that this router founds
	keys   *api.Keys
	picker *routing.Picker
	epochs *epochs
	view   *view
	port   *port.Port

	// These exist once open has returned.
	agreement *consensus.Log
	gossip    *gossip.Mesh
	client    *peer.Client
	server    *peer.Server
	feed      *peer.Feed
	mesh      *peer.Mesh
	prober    *probe.Prober
	discovery *discovery.Discovery
	leases    *discovery.Leases
	steer     steering

	members    atomic.Pointer[[]gossip.Member]
	seedsSeen  atomic.Pointer[seedsSeen] // as of members or before
	sketches   sketches
	leaving    atomic.Bool
	mismatches atomic.Uint64
	told       atomic.Pointer[[2]peer.Version] // ours and theirs, of the mismatch that was logged last
	news       chan struct{}                   // one place: follow has something to look at
	listed     chan struct{}                   // one place: discovery lists something else
	orders     chan struct{}                   // one place: the leader has something to look at
	doubts     chan struct{}                   // one place: the epoch in use may be wrong
}

// nameLimit is how many bytes of router.name go into the replica's own name.
const nameLimit = 100

type replicaDeps struct {
	Picker     *routing.Picker
	OnEpoch    func(*routing.Epoch)
	Keys       *api.Keys
	Salt       uint64
	Tracer     trace.TracerProvider
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
}

func newReplica(cfg Config, world World, deps replicaDeps) (*replica, error) {
	r := &replica{
		cfg: cfg, world: world, log: deps.Log, tracer: deps.Tracer, prop: deps.Propagator, keys: deps.Keys, salt: deps.Salt, picker: deps.Picker,
		news: make(chan struct{}, 1), listed: make(chan struct{}, 1), orders: make(chan struct{}, 1), doubts: make(chan struct{}, 1),
	}
	unique := make([]byte, 4)
	if _, err := io.ReadFull(world.Random, unique); err != nil {
		return nil, fmt.Errorf("drawing a name: %w", err)
	}
	r.name = cfg.Router.Name[:min(len(cfg.Router.Name), nameLimit)] + "-" + hex.EncodeToString(unique)
	r.members.Store(new([]gossip.Member))
	r.seedsSeen.Store(&seedsSeen{total: 1})
	r.epochs = newEpochs(func(e *routing.Epoch) {
		deps.Picker.SetEpoch(e)
		r.tabled(e)
		deps.OnEpoch(e)
	}, r.news, world.Now)
	r.view = newView(r.name, deps.Picker)
	var err error
	r.port, err = port.New(cfg.Peer, port.Deps{
		Listen: world.Listen, Dial: world.Dial, Packets: world.Packets, Interfaces: port.Interfaces, Now: world.Now, Log: deps.Log,
	})
	return r, err
}

// signal fills a channel of one place.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // whoever reads it will look anyway
	}
}

// pause waits for d, or for ctx to end.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// open binds the port, opens the log's file and makes all parts. On an error nothing stays open.
func (r *replica) open(ctx context.Context) error {
	if err := r.port.Open(ctx); err != nil {
		return err // it names the field
	}
	if err := r.make(); err != nil {
		r.port.Close()
		return err
	}
	return nil
}

// make makes the parts, each from what was made before it.
func (r *replica) make() (err error) {
	identity := peer.Identity{Name: r.name, Label: r.cfg.Cluster.Name, Cluster: func() string { return r.agreement.Status().Cluster }}
	r.client = peer.NewClient(peer.ClientConfig{Identity: identity, Dial: r.dial(port.RPC), Tracer: r.tracer, Propagator: r.prop})
	r.gossip, err = gossip.New(r.cfg.Gossip, gossip.Deps{
		Name: r.name, Label: r.cfg.Cluster.Name, Listener: r.port.Listener(port.Gossip), Packets: r.port.Packets(), Dial: r.dial(port.Gossip),
		Advertise: r.port.Advertise(), Seeds: r.seeds, OnFacts: func([]gossip.Fact) { signal(r.orders) },
		OnMembers: func(members []gossip.Member, seeds, reached int) {
			r.members.Store(&members)
			r.seedsSeen.Store(&seedsSeen{seeds, reached}) // after the members, and read before them
			signal(r.news)
		},
		Log: r.log, Random: r.world.Random,
	})
	if err != nil {
		return err
	}
	r.agreement, err = consensus.New(r.cfg.Consensus, consensus.Deps{
		Listener: r.port.Listener(port.Raft), Dial: r.dial(port.Raft), Peers: elders{r.client}, Name: r.name, Expect: r.cfg.Cluster.Expect,
		First: r.firstEpoch, Latest: r.latest, OnEpoch: r.committed, OnChange: func() { signal(r.news) },
		Gap: r.cfg.Fleet.EpochGap, MaxShrink: r.cfg.Fleet.MaxShrink, Log: r.log, Random: r.world.Random,
	})
	if err != nil {
		return err
	}
	r.mesh = peer.NewMesh(peer.MeshConfig{
		Client: r.client, Identity: identity, Publisher: r.view.publisher, Changed: r.picker.Changed(), Collect: r.collect,
		Places: r.view.places, OnPlaces: r.view.placesHeard,
		Version: r.version, OnSums: r.heard, OnVersion: r.compare, Log: r.log,
	})
	r.feed = peer.NewFeed(peer.FeedConfig{
		Client: r.client, Name: r.name, History: r.epochs.history, Sources: r.sources,
		OnEpoch:    func(e *routing.Epoch, steps []peer.Step) { r.epochs.offer(e, steps...) },
		OnMismatch: func(source string, _, theirs peer.Version) { r.compare(source, theirs) },
		Log:        r.log,
	})
	r.server = peer.NewServer(peer.ServerConfig{
		Listener: r.port.Listener(port.RPC), Identity: identity, Group: council{r.agreement}, Fleet: chair{r}, History: r.epochs.history,
		Mesh: r.mesh, Hot: r.counted, Tracer: r.tracer, Propagator: r.prop, Log: r.log,
	})
	r.prober = probe.New(r.cfg.Health, probe.Deps{Dial: r.world.Dial, OnVerdict: r.probed, OnCache: r.measured, Authorization: r.keys.Backend, Log: r.log})
	r.discovery = discovery.New(r.cfg.Discovery, discovery.Deps{
		Lookup: r.world.Lookup, LookupSRV: r.world.LookupSRV, OnChange: func() { signal(r.listed); signal(r.orders) }, Log: r.log,
	})
	r.leases = discovery.NewLeases(r.cfg.Discovery)
	r.steer.planner = plan.New(r.cfg.Fleet)
	return nil
}

// waiting is what this router waits for, for people; empty for nothing. It may be asked once open has returned.
func (r *replica) waiting() string { return r.agreement.Status().Waiting }

func (r *replica) dial(protocol port.Protocol) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return r.port.Dial(ctx, protocol, address)
	}
}

// run takes part until ctx ends. Agreement may fail, on a broken disk for instance, without an end to serving.
func (r *replica) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, part := range map[string]func(context.Context) error{
		"port": r.port.Run, "gossip": r.gossip.Run, "peer": r.server.Run, "mesh": r.mesh.Run, "feed": r.feed.Run, "probe": r.prober.Run,
		"discovery": r.discovery.Run, "follow": r.follow, "lead": r.lead, "heat": r.heat, "doubt": r.doubt,
	} {
		group.Go(func() error {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		if err := r.agreement.Run(ctx); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(ctx, "agreement has ended: this router serves the epoch it has, and must be restarted to get others from its own log", slog.Any("error", err))
		}
		return nil
	})
	err := group.Wait()
	r.client.Close()
	r.port.Close()
	return err
}

// leaveRounds is how many rounds of gossip it takes until all have heard that a router leaves: each tells four others.
const leaveRounds = 3

// leave says goodbye: leadership and seat go to others, and gossip hears that this router is gone. ctx bounds it.
func (r *replica) leave(ctx context.Context) error {
	if len(*r.members.Load()) > 1 {
		// Who is known to leave loses its seat to another at once; who is just gone keeps it for a while.
		pause(ctx, leaveRounds*r.cfg.Gossip.Interval)
	}
	return errors.Join(r.agreement.Leave(ctx), r.gossip.Leave(ctx))
}

// announceLeaving tells the others that this router is about to go.
func (r *replica) announceLeaving() {
	r.leaving.Store(true)
	signal(r.news)
}

// firstEpoch is what a new cluster begins with: the fleet of this router's file, as people wrote it down.
func (r *replica) firstEpoch() (*routing.Epoch, error) {
	endpoints, backends := r.cfg.fleet()
	return routing.NewEpoch(1, r.salt).Apply(routing.Change{PutEndpoints: endpoints, PutBackends: backends})
}

// committed takes an epoch from this router's own log, and the steps that led there.
func (r *replica) committed(e *routing.Epoch, made []consensus.Step) {
	steps := make([]peer.Step, len(made))
	for i, s := range made {
		steps[i] = peer.Step{Version: peer.VersionOf(s.Epoch), Change: s.Change, By: s.By, At: r.world.Now()}
	}
	r.epochs.offer(e, steps...)
}

func (r *replica) latest() *routing.Epoch {
	if !r.epochs.has() {
		return nil
	}
	return r.epochs.newest()
}

func (r *replica) version() peer.Version { return peer.VersionOf(r.epochs.newest()) }

func (r *replica) probed(key loads.Key, result loads.Probe) {
	r.view.probed(key, result)
	signal(r.orders)
}

// heard takes what the other routers say about backends. A change in what their probes say is for the leader.
func (r *replica) heard(sums []loads.Sum, now time.Time) {
	if r.view.heard(sums, now) {
		signal(r.orders)
	}
}
