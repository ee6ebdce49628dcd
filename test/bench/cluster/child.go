package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/node"
)

// traffic is what a router has exchanged with the other routers: payload of TCP and of UDP, without the headers of either.
type traffic struct {
	Sent     int64 `json:"sent"` // bytes
	Received int64 `json:"received"`
}

// serveRouter is this program as a router: it reads a configuration from file, says where it listens, and then answers
// each line of in with its traffic. It ends with in, and so with its parent.
func serveRouter(ctx context.Context, file string, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(400) // as `warmring serve` does
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	cfg, err := node.Load(f, func(string) string { return "" }, nil)
	_ = f.Close() // it was only read
	if err != nil {
		return err
	}
	var c counter
	n, err := node.New(cfg, c.world(node.Machine()), node.Options{Version: "bench", LogOutput: os.Stderr})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return n.Run(ctx)
	})
	select {
	case <-n.Listening():
	case <-ended:
		return group.Wait()
	}
	answers := json.NewEncoder(out)
	err = answers.Encode(router{Name: cfg.Router.Name, API: n.APIAddr(), Admin: n.AdminAddr(), Peer: n.PeerAddr()})
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		err = answers.Encode(traffic{Sent: c.sent.Load(), Received: c.received.Load()})
	}
	cancel()
	if ended := group.Wait(); ended != nil {
		return ended
	}
	return err
}

// counter counts what goes over the sockets of peerHost.
type counter struct{ sent, received atomic.Int64 }

func (c *counter) world(w node.World) node.World {
	listen, dial, packets := w.Listen, w.Dial, w.Packets
	w.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := listen(ctx, network, address)
		if err != nil || !ofPeers(address) {
			return l, err
		}
		return &countedListener{l, c}, nil
	}
	w.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil || !ofPeers(address) {
			return conn, err
		}
		return &countedConn{conn, c}, nil
	}
	w.Packets = func(ctx context.Context, network, address string) (net.PacketConn, error) {
		conn, err := packets(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedPackets{conn, c}, nil
	}
	return w
}

func ofPeers(address string) bool { return strings.HasPrefix(address, peerHost+":") }

type countedListener struct {
	net.Listener
	c *counter
}

func (l *countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, l.c}, nil
}

type countedConn struct {
	net.Conn
	c *counter
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.c.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.c.sent.Add(int64(n))
	return n, err
}

type countedPackets struct {
	net.PacketConn
	c *counter
}

func (p *countedPackets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.PacketConn.ReadFrom(b)
	p.c.received.Add(int64(n))
	return n, from, err
}

func (p *countedPackets) WriteTo(b []byte, to net.Addr) (int, error) {
	n, err := p.PacketConn.WriteTo(b, to)
	p.c.sent.Add(int64(n))
	return n, err
}

// say is one answer of a child.
func say(in *bufio.Reader, v any) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return json.Unmarshal(line, v)
}
