package node

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"time"
)

// World is all that a node takes from the machine it runs on, so that a test or a simulation can put another in its place.
// Waiting uses the time package directly: a synctest bubble replaces that.
type World struct {
	Listen    func(ctx context.Context, network, address string) (net.Listener, error)
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	Packets   func(ctx context.Context, network, address string) (net.PacketConn, error) // network is "udp"
	Lookup    func(ctx context.Context, host string) ([]netip.Addr, error)               // an address is its own answer
	LookupSRV func(ctx context.Context, name string) ([]*net.SRV, error)
	Now       func() time.Time // wall time, where it carries meaning
	Random    io.Reader        // for secrets; must not fail or run dry
}

// Machine is the World of a process: the kernel's network, clock and random source.
func Machine() World {
	var listen net.ListenConfig
	dialer := net.Dialer{KeepAlive: 30 * time.Second}
	return World{
		Listen: listen.Listen, Dial: dialer.DialContext, Packets: listen.ListenPacket,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		LookupSRV: func(ctx context.Context, name string) ([]*net.SRV, error) {
			_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
			return records, err
		},
		Now: time.Now, Random: rand.Reader,
	}
}
