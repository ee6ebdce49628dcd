package gossip

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	departedMemory = 24 * time.Hour
	departedMax    = 256
)

// resident is a member as memberlist has it.
type resident struct {
	Member
	at    netip.AddrPort
	order uint64 // of joining
	claim string // the cluster that it last said it belongs to, also if that was refused
}

// roster is who is alive, by the events of memberlist, and who was.
type roster struct {
	mu       sync.Mutex // guards all below
	cluster  string     // this router's; empty: none yet
	alive    map[string]resident
	joined   uint64                       // members that ever joined
	departed map[netip.AddrPort]time.Time // where members were, and when they went
}

func newRoster() *roster {
	return &roster{alive: map[string]resident{}, departed: map[netip.AddrPort]time.Time{}}
}

func (r *roster) setCluster(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster = cluster
}

// foreign says whether a router that claims to be of a cluster must be kept out, and which cluster this router is of.
func (r *roster) foreign(claim string) (own string, foreign bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster, r.cluster != "" && claim != "" && claim != r.cluster
}

func (r *roster) put(m Member, at netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.alive[m.Name]
	if !ok {
		r.joined++
		known.order = r.joined
	}
	r.alive[m.Name] = resident{Member: m, at: at, order: known.order, claim: m.Meta.Cluster}
	delete(r.departed, at)
}

// claimed notes what a member said of its cluster. memberlist keeps a member whose news are refused as it was, so the
// news would be lost.
func (r *roster) claimed(name, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.alive[name]; ok {
		m.claim = cluster
		r.alive[name] = m
	}
}

func (r *roster) remove(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.alive[name]
	if !ok {
		return
	}
	delete(r.alive, name)
	if len(r.departed) < departedMax {
		r.departed[m.at] = now
	}
}

// has says whether a member of that name is alive.
func (r *roster) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.alive[name]
	return ok
}

// list returns the members of this router's cluster and those that belong to none yet, own included, sorted by name. Of
// several at one address only the latest can be alive; memberlist may take most of a minute to find that out when it is the
// only one that has not heard it.
func (r *roster) list(own Member) []Member {
	r.mu.Lock()
	latest := make(map[netip.AddrPort]uint64, len(r.alive))
	for _, m := range r.alive {
		latest[m.at] = max(latest[m.at], m.order)
	}
	members := make([]Member, 1, len(r.alive)+1)
	members[0] = own
	for _, m := range r.alive {
		ours := r.cluster == "" || m.claim == "" || m.claim == r.cluster
		if ours && m.order == latest[m.at] && m.Addr != own.Addr {
			members = append(members, m.Member)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return members
}

// addresses are where members are.
func (r *roster) addresses() map[netip.AddrPort]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := make(map[netip.AddrPort]bool, len(r.alive))
	for _, m := range r.alive {
		at[m.at] = true
	}
	return at
}

// lost are addresses where members were in the last day and none is now, in order.
func (r *roster) lost(now time.Time) []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lost []netip.AddrPort
	for at, when := range r.departed {
		if now.Sub(when) > departedMemory {
			delete(r.departed, at)
			continue
		}
		lost = append(lost, at)
	}
	slices.SortFunc(lost, netip.AddrPort.Compare)
	return lost
}
