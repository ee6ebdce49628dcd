package simnet

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Host is one machine with one process: all that a node may know of the world. Network.Host makes one.
type Host struct {
	name   string
	net    *Network
	paused gate // what arrives at the host waits here
	random lockedReader

	mu        sync.Mutex // guards all below
	ip        netip.Addr
	up        bool
	down      chan struct{} // closed by Kill, another one after Restart
	offset    time.Duration // of its wall clock
	port      uint16        // the last one that was chosen for somebody
	listeners map[netip.AddrPort]*listener
	packets   map[netip.AddrPort]*packetConn
	conns     map[*Conn]struct{}
}

// lockedReader is a random source for many.
type lockedReader struct {
	mu sync.Mutex // guards r
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

const firstPort = 32768 // of those chosen by the host, as Linux does

func newHost(n *Network, name string, ip netip.Addr) *Host {
	h := &Host{name: name, net: n, ip: ip, up: true, down: make(chan struct{}), port: firstPort}
	h.random.r = rand.NewChaCha8(seedOf(n.cfg.Seed, name))
	h.clear()
	return h
}

// seedOf spreads a seed and a name over the 32 bytes that a generator takes.
func seedOf(seed uint64, name string) [32]byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash does not fail
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	var key [32]byte
	for i := range key {
		key[i] = byte(r.Uint32())
	}
	return key
}

// clear must be called with the lock, or before anybody else has the host.
func (h *Host) clear() {
	h.listeners = map[netip.AddrPort]*listener{}
	h.packets = map[netip.AddrPort]*packetConn{}
	h.conns = map[*Conn]struct{}{}
}

// Name is what the host was called when it was added; it never changes.
func (h *Host) Name() string { return h.name }

func (h *Host) String() string { return h.name }

// IP is the host's address; Move changes it.
func (h *Host) IP() netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ip
}

// Up is false between Kill and Restart.
func (h *Host) Up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up
}

// Now is the host's wall clock.
func (h *Host) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.offset)
}

// JumpClock moves the host's wall clock, forward or back. Timers do not notice.
func (h *Host) JumpClock(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offset += d
}

// Random is the host's source of randomness. It depends on the seed and the host's name, goes on after a restart, and may
// be read by many at once.
func (h *Host) Random() io.Reader { return &h.random }

// Kill ends the host's process as far as the network is concerned: its listeners and ports are gone, its own connections
// fail at once, and peers see a reset one delay later if the link lets it through; if not, when their next bytes get there.
// The code that ran there must be stopped by whoever started it, after this.
func (h *Host) Kill() {
	h.mu.Lock()
	if !h.up {
		h.mu.Unlock()
		return
	}
	h.up = false
	close(h.down)
	listeners, packets, conns := h.listeners, h.packets, h.conns
	h.clear()
	h.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close() // it cannot fail
	}
	for _, p := range packets {
		_ = p.Close() // it cannot fail
	}
	for c := range conns {
		c.abort(errDown)
	}
}

// Restart lets a process run on a killed host again, at the same address.
func (h *Host) Restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		h.up, h.down = true, make(chan struct{})
	}
}

// Move kills the host if it is up and restarts it with another address. Its name leads to the new one at once; nobody
// answers at the old one.
func (h *Host) Move() {
	h.Kill()
	ip := h.net.move(h)
	h.mu.Lock()
	h.ip = ip
	h.mu.Unlock()
	h.Restart()
}

// Pause holds all that arrives at the host for d, as a stopped process or a long collection does. Connections are still
// accepted by its kernel. The process's own timers go on, which is unlike the real thing.
func (h *Host) Pause(d time.Duration) { h.paused.hold(time.Now(), d) }

// dying is closed when the host is killed; nil: it is down already.
func (h *Host) dying() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return nil
	}
	return h.down
}

// keep remembers a connection for Kill; false: the host is down.
func (h *Host) keep(c *Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up {
		h.conns[c] = struct{}{}
	}
	return h.up
}

func (h *Host) forget(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// freePort must be called with the lock. It returns a port for which taken is false.
func (h *Host) freePort(taken func(uint16) bool) uint16 {
	for {
		h.port++
		if h.port < firstPort {
			h.port = firstPort
		}
		if !taken(h.port) {
			return h.port
		}
	}
}
