package routing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// load is what this replica knows of one incarnation of one model server. The
// Picker's mutex guards all of it.
type load struct {
	// What a choice reads of every candidate comes first, so that it is in few cache lines.

	inflight int // of this replica
	most     int // hard cap of requests; noCap without one
	// prefill is the work, in token equivalents, of the prompts that this replica
	// sent and that were not yet answered by a first token.
	prefill int64
	peers   peers
	mark    uint64 // the decision that found placed
	warm    uint64 // the decision that found it to hold the last hot level
	placed  int    // tokens that the directory says it was sent
	joined  uint32 // when it became a candidate last, in Picker.fleet
	number  uint32 // names it in the directory
	pace    pace
	waiting queue // own streams without a first token, the oldest first
	unary   queue // own unary requests whose prefill work is pending
	health
	rumour
	clock   clock
	picks   uint64   // requests given to it, ever; numbers its leases
	dirty   bool     // is in Picker.dirty
	told    bool     // is in Picker.told
	backend *Backend // in the last epoch that had it
	// pool is where the load is a candidate; nil while it is not Active and once
	// it has left the fleet.
	pool *pool
	gone bool // left the fleet; kept for the requests it still carries
}

// noCap is more requests than there can be.
const noCap = math.MaxInt

// fit reports whether nothing at all speaks against another request.
func (l *load) fit(now time.Duration) bool {
	return l.ejections == 0 && !l.rumoured && l.requests() < l.most && l.busyUntil <= now
}

// requests is how many all replicas have in flight there.
func (l *load) requests() int { return l.inflight + l.peers.inflight }

// pending is the prefill work that all replicas have there.
func (l *load) pending() int64 { return l.prefill + l.peers.prefill }

// pool is the view of a group: loads[i] belongs to group.backends[i].
type pool struct {
	loads  []*load
	lesson *lesson // of the endpoint
}

// identity tells incarnations of a model server apart, with the URL also those of
// different generations of the epoch.
type identity struct {
	id, url     string
	incarnation uint64
}

// name is what replicas call an incarnation of a model server among themselves.
type name struct {
	id          string
	incarnation uint64
}

func (b *Backend) identity() identity { return identity{b.ID, b.URL, b.Incarnation} }

// adopt makes the view fit the epoch: loads of what stays are kept as they are,
// those of what left stay until their last request ends.
func (p *Picker) adopt(e *Epoch) {
	p.fleet++
	was := make(map[*load]bool, len(p.loads))
	for _, l := range p.loads {
		was[l] = l.pool != nil
		l.pool, l.gone = nil, true
	}
	p.named = make(map[name]*load, len(e.backends))
	for i := range e.backends {
		b := &e.backends[i]
		l, ok := p.loads[b.identity()]
		if !ok {
			l = p.directory.newLoad()
			p.loads[b.identity()] = l
		}
		l.backend, l.gone = b, false
		l.clock.capacity = p.capacity[b.ID]
		p.named[name{b.ID, b.Incarnation}] = l
		if !ok {
			p.touch(l)
		}
	}
	p.pools = make([]pool, len(e.groups))
	for _, g := range e.groups {
		members := &p.pools[g.ordinal]
		members.loads, members.lesson = make([]*load, len(g.backends)), p.lesson(g.endpoint)
		for i := range g.backends {
			l := p.loads[g.backends[i].identity()]
			l.pool, members.loads[i] = members, l
			if !was[l] {
				l.joined = p.fleet
			}
			l.most = hardCap(&g.backends[i], &g.policy)
		}
	}
	p.adoptPlaces(e)
	p.epoch.Store(e)
	p.review = true
	for _, l := range p.loads {
		l.rumoured = l.rumoured && l.pool != nil
		if l.gone {
			p.touch(l)
			p.forget(l)
		}
	}
}

// hardCap is the backend's own cap or, with `auto`, the policy's if that is lower.
func hardCap(b *Backend, p *Policy) int {
	most := noCap
	if b.MaxInflight > 0 {
		most = b.MaxInflight
	}
	if p.form() == auto && p.ConcurrencyThreshold > 0 {
		most = min(most, p.ConcurrencyThreshold)
	}
	return most
}

// forget drops a load that nothing needs any more.
func (p *Picker) forget(l *load) {
	if l.gone && l.inflight == 0 {
		delete(p.loads, l.backend.identity())
		p.directory.forget(l)
	}
}

// Load is what this replica knows of one model server.
type Load struct {
	Backend  Backend
	InFlight int // requests of this replica
	// Prefill is the work of its prompts without a first token yet, in token
	// equivalents: tokens, weighted up for the attention of long prompts.
	Prefill int64
	// PeerInFlight and PeerPrefill are the same of all other replicas, as last heard.
	PeerInFlight int
	PeerPrefill  int64
	// PeersEjected is how many other replicas have ejected it, and PeersRefused how
	// many of them after a refused connection.
	PeersEjected, PeersRefused int
	// Rumoured says that this replica believes them and keeps its requests away.
	Rumoured bool
	Picks    uint64 // requests given to it since it was first seen
	// EjectedUntil is when the present ejection ends; zero without one. After it
	// and until a success, one request at a time is let through.
	EjectedUntil time.Time
	Ejections    int // ejections in a row, without a success between them
	Failures     int // failures in a row
	// BusyUntil is until when it asked for less; zero when that is over.
	BusyUntil time.Time
	// Gone says that it left the fleet and finishes what it was given.
	Gone bool
}

// Snapshot returns the loads of all model servers, sorted by id and incarnation.
func (p *Picker) Snapshot(now time.Time) []Load {
	p.mu.Lock()
	out := make([]Load, 0, len(p.loads))
	for _, l := range p.loads {
		out = append(out, p.export(l, now))
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b Load) int {
		return cmp.Or(cmp.Compare(a.Backend.ID, b.Backend.ID), cmp.Compare(a.Backend.Incarnation, b.Backend.Incarnation))
	})
	return out
}

func (p *Picker) export(l *load, now time.Time) Load {
	out := Load{
		Backend: *l.backend, InFlight: l.inflight, Prefill: l.prefill, Picks: l.picks,
		Ejections: l.ejections, Failures: l.failures, Gone: l.gone,
		PeerInFlight: l.peers.inflight, PeerPrefill: l.peers.prefill,
		PeersEjected: l.ejectedBy + l.refusedBy, PeersRefused: l.refusedBy,
	}
	at := p.clock(now)
	out.Rumoured = l.believed(at)
	if at < l.ejectedUntil {
		out.EjectedUntil = now.Add(l.ejectedUntil - at)
	}
	if at < l.busyUntil {
		out.BusyUntil = now.Add(l.busyUntil - at)
	}
	return out
}
