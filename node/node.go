// Package node wires one router from its parts and owns its life: New starts nothing, Run blocks until everything that it
// started is over.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node/telemetry"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// Bounds of the steps of the end that have no limit of their own.
const (
	closeLimit = 2 * time.Second
	leaveLimit = 10 * time.Second // to hand over what this router has in the cluster: a new leader looks on for 2 s, and feeds a new voter for 1 s
)

// errStarting and errLeaving say why a node is not ready.
var (
	errStarting = errors.New("starting: there is no epoch yet")
	errLeaving  = errors.New("shutting down")
)

// Options are what a node is given besides its configuration and its World.
type Options struct {
	Version   string              // of the program
	LogOutput io.Writer           // nil: no log
	Getenv    func(string) string // for the OTEL_* variables; nil: empty
}

// Node is one router.
type Node struct {
	cfg   Config
	world World
	log   *slog.Logger

	telemetry *telemetry.Telemetry
	recent    *telemetry.Recent
	keys      *api.Keys
	picker    *routing.Picker
	proxy     *proxy.Proxy
	replica   *replica
	api       *server
	admin     *server

	unready   atomic.Pointer[error] // why the node is not ready; nil: it is
	listening chan struct{}         // closed when the addresses are known
	serving   chan struct{}         // closed when there is an epoch
}

// New makes a node from a configuration, which it validates. It listens on nothing and starts nothing.
func New(cfg Config, world World, opts Options) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if opts.LogOutput == nil {
		opts.LogOutput = io.Discard
	}
	log, err := telemetry.NewLogger(cfg.Telemetry.Log, opts.LogOutput)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, world: world, log: log.With(slog.String("router", cfg.Router.Name)), listening: make(chan struct{}), serving: make(chan struct{})}
	n.unready.Store(&errStarting)
	n.telemetry, err = telemetry.New(cfg.Telemetry, telemetry.Options{Node: cfg.Router.Name, Version: opts.Version, Getenv: opts.Getenv})
	if err != nil {
		return nil, err
	}
	if err := n.wireRouting(); err != nil {
		return nil, err
	}
	if err := n.wireServers(opts.Version); err != nil {
		return nil, err
	}
	return n, nil
}

// wireRouting makes the picker, this router's part in the cluster, and the proxy.
func (n *Node) wireRouting() error {
	salt, err := n.salt()
	if err != nil {
		return err
	}
	n.picker = routing.NewPicker(routing.PickerConfig{})
	n.recent = telemetry.NewRecent(n.picker, n.world.Now)
	if n.keys, err = api.OpenKeys(n.cfg.API); err != nil {
		return err
	}
	n.replica, err = newReplica(n.cfg, n.world, replicaDeps{
		Picker: n.picker, OnEpoch: n.setFleet, Keys: n.keys, Salt: salt, Tracer: n.telemetry.TracerProvider(), Propagator: n.telemetry.Propagator(), Log: n.log,
	})
	if err != nil {
		return err
	}
	deps := proxy.Deps{Picker: n.picker, Dial: n.world.Dial, Log: n.log}
	if n.telemetry.Tracing() {
		deps.Tracer, deps.Propagator = n.telemetry.Tracer(), n.telemetry.Propagator()
	}
	n.proxy = proxy.New(n.cfg.Proxy, deps)
	return errors.Join(
		n.telemetry.Metrics.Watch(n.picker, n.proxy.Queued, n.world.Now),
		n.telemetry.Metrics.WatchCluster(n.replica.state),
		n.telemetry.Metrics.WatchRouting(n.replica.learnt),
	)
}

// salt is the secret that prefix keys are mixed with in a cluster that this router founds.
func (n *Node) salt() (uint64, error) {
	secret := make([]byte, 32)
	if path := n.cfg.Router.SaltFile; path != "" {
		var err error
		if secret, err = os.ReadFile(path); err != nil {
			return 0, fmt.Errorf("router.salt_file: %w", err)
		}
		if len(secret) < 16 {
			return 0, fmt.Errorf("router.salt_file: %s has %d bytes, at least 16 are needed", path, len(secret))
		}
	} else {
		if _, err := io.ReadFull(n.world.Random, secret); err != nil {
			return 0, fmt.Errorf("drawing a salt: %w", err)
		}
	}
	sum := sha256.Sum256(secret)
	return binary.LittleEndian.Uint64(sum[:]), nil
}

// Run listens, serves until ctx ends, then stops in order and returns when nothing of the node runs any more. It returns
// an error if the node could not start or a listener failed. A node runs once.
func (n *Node) Run(ctx context.Context) error {
	listeners, err := n.listen(ctx)
	if err != nil {
		return err
	}
	if err := n.telemetry.Start(ctx); err != nil {
		return errors.Join(err, closeAll(listeners), n.telemetry.Shutdown(ctx))
	}
	if err := n.replica.open(ctx); err != nil {
		return errors.Join(err, closeAll(listeners), n.telemetry.Shutdown(ctx))
	}
	// What serves requests outlives ctx by the orderly end.
	ending := context.WithoutCancel(ctx)
	background, stopBackground := context.WithCancel(ending)
	defer stopBackground()
	group, failed := errgroup.WithContext(ctx)
	group.Go(func() error { return n.api.serve(listeners[0]) })
	group.Go(func() error { return n.admin.serve(listeners[1]) })
	group.Go(func() error { return n.replica.run(background) })
	group.Go(func() error { return n.proxy.Run(background) })
	close(n.listening)
	n.log.InfoContext(ctx, "listening", slog.String("api", n.APIAddr()), slog.String("admin", n.AdminAddr()), slog.String("peer", n.PeerAddr()))
	select {
	case <-n.replica.epochs.first:
		n.unready.Store(nil)
		close(n.serving)
		n.log.InfoContext(ctx, "serving", slog.String("epoch", n.picker.Epoch().ID()))
		n.compareFile(ctx)
	case <-failed.Done():
	}

	<-failed.Done()
	runSteps(ending, n.log, n.steps(stopBackground))
	return group.Wait()
}

// listen opens both listeners or none.
func (n *Node) listen(ctx context.Context) ([]net.Listener, error) {
	var open []net.Listener
	for _, s := range []*server{n.api, n.admin} {
		l, err := n.world.Listen(ctx, "tcp", s.listen)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s.listen: %w", s.name, err), closeAll(open))
		}
		s.addr = l.Addr()
		open = append(open, l)
	}
	return open, nil
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// steps are the orderly end.
func (n *Node) steps(stopBackground func()) []step {
	return []step{
		{"not_ready", closeLimit, func(context.Context) error {
			n.unready.Store(&errLeaving)
			n.replica.announceLeaving()
			return nil
		}},
		{"drain_delay", n.cfg.Shutdown.DrainDelay, func(ctx context.Context) error { <-ctx.Done(); return nil }},
		{"api", n.cfg.Shutdown.Grace, n.api.stop},
		{"cluster", leaveLimit, n.replica.leave},
		{"admin", closeLimit, n.admin.stop},
		{"background", closeLimit, func(context.Context) error { stopBackground(); return nil }},
		{"telemetry", n.cfg.Telemetry.FlushTimeout, n.telemetry.Shutdown},
	}
}

// Reload proposes the endpoints and backends of cfg to the cluster, all or nothing; those that the file no longer has
// drain. Then it puts the keys in use that the keys files have now. Settings that need a restart must be as they were. On an
// error, which names every field at fault, nothing has changed.
func (n *Node) Reload(ctx context.Context, cfg Config) error {
	if err := errors.Join(cfg.Validate(), restartNeeded(n.cfg, cfg)); err != nil {
		return err
	}
	replaceKeys, err := n.keys.Read()
	if err != nil {
		return err
	}
	if err := n.replica.want(ctx, cfg.wanted()); err != nil {
		return err
	}
	replaceKeys()
	return nil
}

// compareFile says so if the cluster's fleet is not the one in this router's file.
func (n *Node) compareFile(ctx context.Context) {
	if len(n.cfg.Endpoints)+len(n.cfg.Backends) == 0 {
		return
	}
	if change := n.cfg.wanted().Change(n.picker.Epoch(), routing.Joining, true); !change.Empty() {
		n.log.WarnContext(ctx, "the fleet in the configuration file is not the agreed one, which is in use; SIGHUP proposes the file's",
			slog.Int("put_endpoints", len(change.PutEndpoints)), slog.Any("remove_endpoints", change.RemoveEndpoints),
			slog.Int("put_backends", len(change.PutBackends)), slog.Any("drain", change.Drain))
	}
}

// restartNeeded names the settings in which b differs from a, the fleet aside. It shows no passwords.
func restartNeeded(a, b Config) error {
	var errs []error
	maskedA, maskedB := a.Masked(), b.Masked()
	was, is, shownWas, shownIs := Leaves(&a), Leaves(&b), Leaves(&maskedA), Leaves(&maskedB)
	for i := range was {
		if was[i].String() != is[i].String() {
			errs = append(errs, fmt.Errorf("%s: changed from %q to %q, which needs a restart", is[i].Path, shownWas[i], shownIs[i]))
		}
	}
	if !slices.Equal(a.Discovery.DNS, b.Discovery.DNS) {
		errs = append(errs, errors.New("discovery.dns: changed, which needs a restart"))
	}
	return errors.Join(errs...)
}

// Ready says why the node should get no requests; nil: it should.
func (n *Node) Ready() error {
	why := n.unready.Load()
	if why == nil {
		return nil
	}
	select {
	case <-n.listening:
		if waiting := n.replica.waiting(); why == &errStarting && waiting != "" {
			return fmt.Errorf("%w: %s", errStarting, waiting)
		}
	default:
	}
	return *why
}

// Listening is closed when APIAddr, AdminAddr and PeerAddr are known.
func (n *Node) Listening() <-chan struct{} { return n.listening }

// Serving is closed when the node has an epoch, and so takes requests.
func (n *Node) Serving() <-chan struct{} { return n.serving }

// Epoch is the one in use; 0.0 before the first.
func (n *Node) Epoch() *routing.Epoch { return n.picker.Epoch() }

// Cluster is this router's part in the cluster, once Listening is closed.
func (n *Node) Cluster() admin.ClusterStatus { return n.replica.describeCluster() }

// Members are the routers that are alive, once Listening is closed.
func (n *Node) Members() []admin.Member { return n.replica.describeMembers() }

// PeerAddr is where other routers reach this one, once Listening is closed.
func (n *Node) PeerAddr() string { return n.replica.port.Advertise().String() }

// APIAddr is where the data plane listens, once Listening is closed.
func (n *Node) APIAddr() string { return n.api.addr.String() }

// AdminAddr is where the admin listener is, once Listening is closed.
func (n *Node) AdminAddr() string { return n.admin.addr.String() }

// Log is the node's logger.
func (n *Node) Log() *slog.Logger { return n.log }

// wireServers makes the two HTTP servers.
func (n *Node) wireServers(version string) error {
	edge, err := api.New(n.cfg.API, api.Deps{
		Epoch: n.picker.Epoch, Counts: n.picker.Counts, Keys: n.keys, Proxy: n.proxy, Observer: observers{n.telemetry.Metrics, n.recent}, Tracing: n.telemetry.Tracing(),
		Tracer: n.telemetry.Tracer(), Propagator: n.telemetry.Propagator(), Log: n.log, Ready: n.Ready,
		RouterName: n.cfg.Router.Name, Now: n.world.Now,
	})
	if err != nil {
		return err
	}
	n.api = newServer("api", n.cfg.API.Listen, edge.Handler(), func(h http.Handler) httpServer { return edge.Server(h) })
	desk, err := admin.New(n.cfg.Admin, admin.Deps{
		Picker: n.picker, Window: int(n.cfg.API.Limits.ScanWindow), Queued: n.proxy.Queued, Ready: n.Ready, Metrics: n.telemetry.Metrics.Handler(), Traffic: n.traffic, Log: n.log,
		Router: n.cfg.Router.Name, Version: version, Started: n.world.Now(), Now: n.world.Now,
		Fleet: n.replica, Members: n.replica.describeMembers, Cluster: n.replica.describeCluster, Epochs: n.replica.epochs.newestFirst,
	})
	if err != nil {
		return err
	}
	n.admin = newServer("admin", n.cfg.Admin.Listen, n.traceWrites(desk), func(h http.Handler) httpServer {
		srv := desk.Server()
		srv.Handler = h
		return srv
	})
	return nil
}
