package simnet

import (
	"slices"
	"sync"
	"time"
)

// Group is some hosts.
type Group []*Host

// Except are the hosts of g that are not among others.
func (g Group) Except(others ...*Host) Group {
	return slices.DeleteFunc(slices.Clone(g), func(h *Host) bool { return slices.Contains(others, h) })
}

// Fault is something that is wrong until it is healed. Faults add up: a link is whole when the last one is gone.
type Fault struct {
	heal func()
}

// Heal ends the fault; a second time does nothing.
func (f *Fault) Heal() { f.heal() }

// shut closes gates of all links from one group to another.
func (n *Network) shut(from, to Group, which ...kind) *Fault {
	var gates []*gate
	for _, l := range n.between(from, to) {
		for _, k := range which {
			gates = append(gates, &l.gates[k])
		}
	}
	for _, g := range gates {
		g.close(time.Now())
	}
	return &Fault{sync.OnceFunc(func() {
		for _, g := range gates {
			g.open(time.Now())
		}
	})}
}

// between are the links from one group to another; a host's way to itself is never at fault.
func (n *Network) between(from, to Group) []*link {
	var all []*link
	for _, a := range from {
		for _, b := range to {
			if a != b {
				all = append(all, n.link(a, b))
			}
		}
	}
	return all
}

// both makes one fault of two.
func both(a, b *Fault) *Fault {
	return &Fault{func() { a.Heal(); b.Heal() }}
}

// OneWay lets nothing pass from one group to the other: streams stall, datagrams are lost, dials wait.
func (n *Network) OneWay(from, to Group) *Fault {
	return n.shut(from, to, handshakes, segments, datagrams)
}

// Split lets nothing pass between two groups, in either direction.
func (n *Network) Split(a, b Group) *Fault { return both(n.OneWay(a, b), n.OneWay(b, a)) }

// BlackHole lets dials between two groups succeed, and nothing else pass.
func (n *Network) BlackHole(a, b Group) *Fault {
	return both(n.shut(a, b, segments, datagrams), n.shut(b, a, segments, datagrams))
}

// DropDatagrams loses all datagrams between two groups; streams pass.
func (n *Network) DropDatagrams(a, b Group) *Fault {
	return both(n.shut(a, b, datagrams), n.shut(b, a, datagrams))
}

// DropStreams stalls dials and streams between two groups; datagrams pass.
func (n *Network) DropStreams(a, b Group) *Fault {
	return both(n.shut(a, b, handshakes, segments), n.shut(b, a, handshakes, segments))
}

// Slow adds a delay, and a share 0..1 of loss, to what passes from one group to the other.
func (n *Network) Slow(from, to Group, delay time.Duration, loss float64) *Fault {
	s := &slowness{delay, loss}
	links := n.between(from, to)
	for _, l := range links {
		l.setSlow(s)
	}
	return &Fault{sync.OnceFunc(func() {
		for _, l := range links {
			l.dropSlow(s)
		}
	})}
}
