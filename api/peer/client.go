package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/warmring/warmring/api/peer/peerpb"
)

// Sizes of messages, in bytes. An image of 10,000 model servers is about 3 MB.
const (
	imageSize = 16 << 20
	askSize   = 4 << 20 // what a server takes: proposals and frames of loads
	replySize = 1 << 20
)

// How a dead connection is noticed, and how soon it is tried again. gRPC does not
// ping more often than each 10 s; the loads' heartbeat is the quick detector.
const (
	pingEvery   = 10 * time.Second
	pingTimeout = 3 * time.Second
	dialTimeout = 2 * time.Second
	redialFirst = 50 * time.Millisecond
	redialMost  = time.Second
)

// Windows of HTTP/2, in bytes, both ends. They are fixed, so that what waits for a
// slow reader is bounded, and so that gRPC does not send a ping with each frame to
// measure what window would be best.
const (
	streamWindow = 256 << 10
	connWindow   = 1 << 20
	readBuffer   = 4 << 10 // of each connection; messages are small
)

// ClientConfig is what a Client needs.
type ClientConfig struct {
	Identity Identity
	// Dial connects to the gRPC side of a router's peer port.
	Dial       func(ctx context.Context, address string) (net.Conn, error)
	Tracer     trace.TracerProvider
	Propagator propagation.TextMapPropagator
}

// Client asks other routers. It keeps one connection to each member's address;
// one to any other address lasts as long as the calls on it. It is safe for
// concurrent use.
type Client struct {
	cfg     ClientConfig
	options []grpc.DialOption

	mu      sync.Mutex // guards what follows
	members map[string]bool
	conns   map[string]*conn // by address
	closed  bool
}

// conn is a connection and how many calls use it. Both are guarded by Client.mu.
type conn struct {
	grpc  *grpc.ClientConn
	users int
}

// NewClient returns a client without connections.
func NewClient(cfg ClientConfig) *Client {
	c := &Client{cfg: cfg, members: map[string]bool{}, conns: map[string]*conn{}}
	c.options = []grpc.DialOption{
		// The port under it has authenticated and encrypted the connection, if the
		// configuration asks for that. A second layer would only cost.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(cfg.Dial),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: redialMost},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(replySize), grpc.MaxCallSendMsgSize(askSize)),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(tracing(cfg.Tracer, cfg.Propagator)...)),
	}
	return c
}

// tracing makes spans of calls but not of streams, which last as long as the router.
func tracing(tracer trace.TracerProvider, propagator propagation.TextMapPropagator) []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(tracer), otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool {
			return info.FullMethodName != peerpb.Peer_Watch_FullMethodName && info.FullMethodName != peerpb.Peer_Loads_FullMethodName
		}),
	}
}

// SetMembers says which addresses are routers of this cluster. Connections to others
// are closed, those in use when their last call ends.
func (c *Client) SetMembers(addresses []string) {
	members := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		members[a] = true
	}
	c.mu.Lock()
	c.members = members
	idle := c.takeIdle()
	c.mu.Unlock()
	closeAll(idle)
}

// Close closes the connections; calls on them fail.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	var all []*grpc.ClientConn
	for _, held := range c.conns {
		all = append(all, held.grpc)
	}
	clear(c.conns)
	c.mu.Unlock()
	closeAll(all)
}

// takeIdle removes what is neither a member's nor in use. c.mu is held.
func (c *Client) takeIdle() []*grpc.ClientConn {
	var idle []*grpc.ClientConn
	for address, held := range c.conns {
		if held.users == 0 && !c.members[address] {
			delete(c.conns, address)
			idle = append(idle, held.grpc)
		}
	}
	return idle
}

func closeAll(conns []*grpc.ClientConn) {
	for _, cc := range conns {
		_ = cc.Close() // it only says that it was closed before
	}
}

var errClosed = errors.New("the client is closed")

// acquire returns a connection to address, which is dialled by the first call on it,
// and what gives it back.
func (c *Client) acquire(address string) (peerpb.PeerClient, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errClosed
	}
	held := c.conns[address]
	if held == nil {
		// passthrough keeps gRPC from resolving names: the dialler knows what an address is.
		cc, err := grpc.NewClient("passthrough:///"+address, c.options...)
		if err != nil {
			return nil, nil, err
		}
		held = &conn{grpc: cc}
		c.conns[address] = held
	}
	held.users++
	return peerpb.NewPeerClient(held.grpc), func() { c.release(held) }, nil
}

func (c *Client) release(held *conn) {
	c.mu.Lock()
	held.users--
	idle := c.takeIdle()
	c.mu.Unlock()
	closeAll(idle)
}
