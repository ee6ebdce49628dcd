package node

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"time"
)

// World is all that a node takes from the machine it runs on, so that a test or a simulation can put another in its place.
// Waiting uses the time package directly: a synctest bubble replaces that.
type World struct {
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Now    func() time.Time // wall time, where it carries meaning
	Random io.Reader        // for secrets; must not fail or run dry
}

// Machine is the World of a process: the kernel's network, clock and random source.
func Machine() World {
	var listen net.ListenConfig
	dialer := net.Dialer{KeepAlive: 30 * time.Second}
	return World{Listen: listen.Listen, Dial: dialer.DialContext, Now: time.Now, Random: rand.Reader}
}
