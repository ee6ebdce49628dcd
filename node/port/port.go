package port

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	handshakeLimit = 5 * time.Second // for a new connection to say what it speaks
	handshakesMax  = 64              // connections that have not said so yet
	bindAttempts   = 10              // to find a number that is free for both TCP and UDP
	acceptPause    = 50 * time.Millisecond
)

// Deps is what a Port works with.
type Deps struct {
	Listen  func(ctx context.Context, network, address string) (net.Listener, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Packets func(ctx context.Context, network, address string) (net.PacketConn, error)
	// Interfaces lists the machine's addresses, to choose one when the port listens on all of them. Nil:
	// peer.advertise must be set then.
	Interfaces func() ([]netip.Addr, error)
	Now        func() time.Time // judges certificates; nil: time.Now
	Log        *slog.Logger
}

// Port is a router's peer address. Its methods may be called by several goroutines at once.
type Port struct {
	cfg      Config
	deps     Deps
	keeper   *keeper // nil without TLS
	queues   [protocols]*queue
	rejected atomic.Uint64
	refusals quiet
	closing  context.Context // ends with Close
	cancel   context.CancelFunc

	mu    sync.Mutex // guards all below
	tcp   net.Listener
	udp   net.PacketConn
	at    netip.AddrPort
	conns map[*tracked]struct{} // those accepted and dialled that are open
}

// New reads the TLS files. It starts nothing. cfg must be valid.
func New(cfg Config, deps Deps) (*Port, error) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	p := &Port{cfg: cfg, deps: deps, conns: map[*tracked]struct{}{}}
	if cfg.tls() {
		var err error
		if p.keeper, err = newKeeper(cfg, deps.Now, deps.Log); err != nil {
			return nil, err
		}
	}
	p.closing, p.cancel = context.WithCancel(context.Background())
	for protocol := range p.queues {
		p.queues[protocol] = newQueue(p)
	}
	return p, nil
}

// Open binds TCP and UDP on the same number. Connections wait until Run accepts them. Errors name the field at fault.
func (p *Port) Open(ctx context.Context) error {
	tcp, udp, err := p.bind(ctx)
	if err != nil {
		return err
	}
	at, err := p.choose(tcp.Addr())
	p.mu.Lock()
	p.tcp, p.udp, p.at = tcp, udp, at
	p.mu.Unlock()
	if err != nil || p.closing.Err() != nil {
		p.Close() // once more, for what was bound since
		return cmp.Or(err, net.ErrClosed)
	}
	return nil
}

func (p *Port) bind(ctx context.Context) (net.Listener, net.PacketConn, error) {
	_, number, _ := net.SplitHostPort(p.cfg.Listen) // Validate has looked at it
	for attempt := 1; ; attempt++ {
		tcp, err := p.deps.Listen(ctx, "tcp", p.cfg.Listen)
		if err != nil {
			return nil, nil, fmt.Errorf("peer.listen: %w", err)
		}
		udp, err := p.deps.Packets(ctx, "udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp, nil
		}
		_ = tcp.Close() // the other error is the one to tell
		if number != "0" || attempt == bindAttempts {
			return nil, nil, fmt.Errorf("peer.listen: %w", err)
		}
	}
}

// Run accepts connections until ctx is done or the port is closed, and closes it. Nothing that it started is left when it
// returns. Open must have been called.
func (p *Port) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.Close)()
	defer p.Close()
	p.mu.Lock()
	tcp := p.tcp
	p.mu.Unlock()

	var greetings sync.WaitGroup
	defer greetings.Wait()
	slots := make(chan struct{}, handshakesMax)
	for p.closing.Err() == nil {
		conn, err := tcp.Accept()
		switch {
		case p.closing.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("peer port: %w", err)
		case err != nil: // such as too many open files: it may pass
			p.deps.Log.WarnContext(ctx, "peer port cannot accept", "error", err)
			p.wait(acceptPause)
			continue
		}
		slots <- struct{}{} // given back within handshakeLimit
		greetings.Go(func() {
			defer func() { <-slots }()
			p.greet(conn)
		})
	}
	return nil
}

// wait waits for d, or for Close.
func (p *Port) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.closing.Done():
	}
}

// Close ends the port and every connection that it accepted or dialled. It may be called more than once.
func (p *Port) Close() {
	p.cancel()
	p.mu.Lock()
	tcp, udp := p.tcp, p.udp
	open := make([]*tracked, 0, len(p.conns))
	for conn := range p.conns {
		open = append(open, conn)
	}
	p.mu.Unlock()
	if tcp != nil { // then udp is there as well; what closing says helps nobody
		_ = tcp.Close()
		_ = udp.Close()
	}
	for _, q := range p.queues {
		_ = q.Close()
	}
	for _, conn := range open {
		_ = conn.Close()
	}
}

// Listener gives the connections that speak protocol. There is one for each, also before Open.
func (p *Port) Listener(protocol Protocol) net.Listener { return p.queues[protocol] }

// Packets is the UDP socket. Valid after Open.
func (p *Port) Packets() net.PacketConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.udp
}

// Advertise is where others reach this port. Valid after Open.
func (p *Port) Advertise() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Rejected counts connections that were closed because they did not say what they speak, or were not trusted.
func (p *Port) Rejected() uint64 { return p.rejected.Load() }
