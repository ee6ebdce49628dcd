package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing/hot"
)

// Group is what a server asks of the agreement about its members.
type Group interface {
	Hello() Hello
	// Promise decides on a founding and remembers the answer.
	Promise(ctx context.Context, b Ballot) error
}

// Fleet is what a server asks of the agreement about the fleet. It must not forward
// to another router: a router that does not lead answers NotLeaderError.
type Fleet interface {
	Propose(ctx context.Context, p Proposal) (Version, error)
	Renew(ctx context.Context, l Lease) error
}

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Listener net.Listener // of connections that are authenticated and encrypted already
	Identity Identity
	Group    Group
	Fleet    Fleet
	History  *History
	Mesh     *Mesh
	// Hot is what this router counted: chunks with at least floor visits, at most that many
	// of them, the largest. nil: it does not count.
	Hot        func(floor float64, most int) hot.Report
	Tracer     trace.TracerProvider
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
}

// stopGrace is how long calls may take to end when the server stops.
const stopGrace = time.Second

// Server answers other routers.
type Server struct {
	peerpb.UnimplementedPeerServer
	cfg  ServerConfig
	grpc *grpc.Server
	done chan struct{} // closed when streams have to end
}

// NewServer returns a server that does not accept yet.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, done: make(chan struct{})}
	s.grpc = grpc.NewServer(
		// See NewClient: the port under it is what authenticates and encrypts.
		grpc.Creds(insecure.NewCredentials()),
		grpc.MaxRecvMsgSize(askSize), grpc.MaxSendMsgSize(imageSize),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.MaxConcurrentStreams(256), grpc.MaxHeaderListSize(16<<10), grpc.ConnectionTimeout(5*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery / 2, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.admitCall), grpc.StreamInterceptor(s.admitStream),
		grpc.StatsHandler(otelgrpc.NewServerHandler(tracing(cfg.Tracer, cfg.Propagator)...)),
		grpc.WaitForHandlers(true),
	)
	peerpb.RegisterPeerServer(s.grpc, s)
	return s
}

// Run serves until ctx ends, and returns when every handler has returned.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.cfg.Listener) }()
	select {
	case err := <-served:
		close(s.done)
		s.grpc.Stop()
		return fmt.Errorf("peer: serve: %w", err)
	case <-ctx.Done():
	}
	close(s.done)
	s.stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("peer: serve: %w", err)
	}
	return nil
}

// stop lets calls end, for a while.
func (s *Server) stop() {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-graceful:
	case <-grace.C:
		s.grpc.Stop()
		<-graceful
	}
}

func (s *Server) admit(ctx context.Context) error {
	name, label, cluster := caller(ctx)
	if err := s.cfg.Identity.admit(name, label, cluster); err != nil {
		s.cfg.Log.WarnContext(ctx, "refused a router of another cluster", "router", name, "cluster", label, "cluster_id", cluster)
		return outward(err)
	}
	return nil
}

func (s *Server) admitCall(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	reply, err := handle(ctx, request)
	return reply, outward(err)
}

func (s *Server) admitStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := s.admit(stream.Context()); err != nil {
		return err
	}
	return handle(srv, stream)
}

// errStopping ends the streams of a router that stops.
func errStopping() error { return status.Error(codes.Unavailable, "the router stops") }

// Hello implements peerpb.PeerServer.
func (s *Server) Hello(context.Context, *peerpb.HelloRequest) (*peerpb.HelloReply, error) {
	return s.cfg.Group.Hello().wire(), nil
}

// Promise implements peerpb.PeerServer.
func (s *Server) Promise(ctx context.Context, r *peerpb.PromiseRequest) (*peerpb.PromiseReply, error) {
	return &peerpb.PromiseReply{}, s.cfg.Group.Promise(ctx, ballotFromWire(r))
}

// Image implements peerpb.PeerServer.
func (s *Server) Image(context.Context, *peerpb.ImageRequest) (*peerpb.ImageReply, error) {
	image, err := imageBytes(s.cfg.History.Latest())
	return &peerpb.ImageReply{Image: image}, err
}

// Propose implements peerpb.PeerServer.
func (s *Server) Propose(ctx context.Context, r *peerpb.ProposeRequest) (*peerpb.ProposeReply, error) {
	if r.GetHop() > 1 {
		return nil, fmt.Errorf("the proposal has passed %d routers; one forwards it, to the leader", r.GetHop())
	}
	p, err := proposalFromWire(r)
	if err != nil {
		return nil, err
	}
	v, err := s.cfg.Fleet.Propose(ctx, p)
	return &peerpb.ProposeReply{Version: v.wire()}, err
}

// Renew implements peerpb.PeerServer.
func (s *Server) Renew(ctx context.Context, r *peerpb.RenewRequest) (*peerpb.RenewReply, error) {
	l, err := leaseFromWire(r)
	if err != nil {
		return nil, err
	}
	return &peerpb.RenewReply{}, s.cfg.Fleet.Renew(ctx, l)
}

// Loads implements peerpb.PeerServer.
func (s *Server) Loads(stream peerpb.Peer_LoadsServer) error {
	return outward(s.cfg.Mesh.accept(stream, s.done))
}
