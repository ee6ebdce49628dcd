package simnet

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a network is like when nothing is wrong.
type Config struct {
	Seed    uint64
	Latency time.Duration // least delay of a packet between two hosts; over 0
	Jitter  time.Duration // added to it evenly, from 0 to just below this
	Loss    float64       // 0..1: share of datagrams that are lost, and of segments that must be sent again
	Window  int           // bytes of a stream that may be sent and not read
	Queue   int           // datagrams that a port holds; more are dropped
}

// Default is a data centre: 1 to 2 ms, no loss, windows of 256 KiB.
func Default() Config {
	return Config{Latency: time.Millisecond, Jitter: time.Millisecond, Window: 256 << 10, Queue: 1024}
}

// Network connects hosts. New makes one.
type Network struct {
	cfg       Config
	sends     atomic.Uint64
	signature atomic.Uint64

	mu       sync.Mutex // guards all below
	hosts    []*Host    // in the order in which they were added
	byName   map[string]*Host
	byIP     map[netip.Addr]*Host
	links    map[[2]*Host]*link
	names    map[string]*name
	resolver resolver
	nextIP   netip.Addr
}

// New makes a network without hosts.
func New(cfg Config) *Network {
	return &Network{
		cfg: cfg, byName: map[string]*Host{}, byIP: map[netip.Addr]*Host{}, links: map[[2]*Host]*link{},
		names: map[string]*name{}, nextIP: netip.AddrFrom4([4]byte{10, 0, 0, 1}),
	}
}

// Host returns the host of a name and adds it if there is none. Its name can be looked up; its address is 10.0.x.y.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.byName[name]; h != nil {
		return h
	}
	h := newHost(n, name, n.freeIP())
	n.hosts = append(n.hosts, h)
	n.byName[name], n.byIP[h.ip] = h, h
	return h
}

// Hosts are all hosts in the order in which they were added.
func (n *Network) Hosts() Group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append(Group(nil), n.hosts...)
}

// freeIP must be called with the lock.
func (n *Network) freeIP() netip.Addr {
	ip := n.nextIP
	n.nextIP = ip.Next()
	return ip
}

// link returns the way between two hosts.
func (n *Network) link(from, to *Host) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]*Host{from, to}
	l := n.links[key]
	if l == nil {
		l = newLink(n, from, to)
		n.links[key] = l
	}
	return l
}

// at is the host with an address, nil if there is none.
func (n *Network) at(ip netip.Addr) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byIP[ip]
}

// move gives a host another address; nobody has the old one any more.
func (n *Network) move(h *Host) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ip, owner := range n.byIP {
		if owner == h {
			delete(n.byIP, ip)
		}
	}
	ip := n.freeIP()
	n.byIP[ip] = h
	return ip
}

// Sends is how many writes and datagrams were sent.
func (n *Network) Sends() uint64 { return n.sends.Load() }

// Signature is a sum over all sends (when, from whom, to whom, how long): two runs that were the same have the same one.
func (n *Network) Signature() uint64 { return n.signature.Load() }

// record counts one send.
func (n *Network) record(l *link, now time.Time, size int) {
	n.sends.Add(1)
	n.signature.Add((l.seed ^ uint64(now.UnixNano())*0x9e3779b97f4a7c15) * (2*uint64(size) + 1))
}
