package plan

import "github.com/warmring/warmring/routing"

// limits is how much one decision may still take out of service. It follows the decision as that is made.
type limits struct {
	fleet int                // backends that do not drain
	room  map[string]int     // by endpoint: active ones that may leave
	pools map[pool]*strength // a request is given to one of a pool
}

type pool struct{ endpoint, variant string }

func poolOf(b *routing.Backend) pool { return pool{b.Endpoint, b.Variant} }

type strength struct{ active, joining int }

func newLimits(share float64, backends []routing.Backend) *limits {
	l := &limits{room: map[string]int{}, pools: map[pool]*strength{}}
	active := map[string]int{}
	for i := range backends {
		b := &backends[i]
		l.add(b, 1)
		if b.State == routing.Active {
			active[b.Endpoint]++
		}
		if b.State != routing.Draining {
			l.fleet++
		}
	}
	for endpoint, n := range active {
		l.room[endpoint] = max(1, int(share*float64(n)))
	}
	return l
}

// add counts b n times more.
func (l *limits) add(b *routing.Backend, n int) {
	p := poolOf(b)
	if l.pools[p] == nil {
		l.pools[p] = &strength{}
	}
	switch b.State {
	case routing.Active:
		l.pools[p].active += n
	case routing.Joining:
		l.pools[p].joining += n
	case routing.Draining: // serves nobody
	}
}

// replace counts b in place of what it was.
func (l *limits) replace(was, b *routing.Backend) {
	l.add(was, -1)
	l.add(b, 1)
	if was.State == routing.Active && (b.State != routing.Active || b.Endpoint != was.Endpoint) {
		l.room[was.Endpoint]--
	}
}

// mayFall reports whether at least half of the pool would be active if b had to join anew. When more seem dead, the
// observers or the network are the likelier cause, and the replicas' own ejections do less harm than an empty pool.
func (l *limits) mayFall(b *routing.Backend) bool {
	s := l.pools[poolOf(b)]
	return 2*(s.active-1) >= s.active+s.joining
}
