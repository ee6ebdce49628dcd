package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warmring/warmring/routing"
)

const (
	// dying is how long a majority must find a backend dead.
	dying = 30 * time.Second
	// evictable: one in so many of the fleet, and at least one, is evicted within a window.
	evictable = 10
	// losable: when more than one in so many of the routers went within a window, nothing is evicted.
	losable = 5
	// settling is how long nothing may be in flight before a drained backend goes: a replica that got the draining epoch
	// late, and counts what it began until then, is heard by the others within this time.
	settling = time.Second
)

// admit lets ready backends in: at once the first time, after an eviction when that has lasted.
func (r *round) admit() {
	for i := range r.backends {
		b := &r.backends[i]
		m := r.memory(b)
		if m.ready.IsZero() || r.taken[b.ID] {
			continue
		}
		wait := r.planner.flaps[b.ID].wait()
		if m.evicted {
			wait = max(wait, firstWait)
		}
		if !r.until(m.ready, wait) {
			r.hold(HeldFlapping, b.ID, fmt.Sprintf("must be ready for %s", wait))
			continue
		}
		active := *b
		active.State = routing.Active
		r.put(active, Ready, r.vote(b, r.report(b).Ready).String()+" observers find it ready")
	}
}

func (r *round) report(b *routing.Backend) Report { return r.in.Reports[Key{b.ID, b.Incarnation}] }

// evict sends dead backends back to join, those first that are dead for longest.
func (r *round) evict() {
	var dead []*routing.Backend
	for i := range r.backends {
		b := &r.backends[i]
		if since := r.memory(b).dead; !since.IsZero() && !r.taken[b.ID] && r.until(since, dying) {
			dead = append(dead, b)
		}
	}
	slices.SortFunc(dead, func(a, b *routing.Backend) int {
		return cmp.Or(r.memory(a).dead.Compare(r.memory(b).dead), cmp.Compare(a.ID, b.ID))
	})
	left := max(1, r.limits.fleet/evictable) - len(r.planner.evictions)
	for _, b := range dead {
		text := r.vote(b, r.report(b).Dead).String() + " observers find it dead"
		if kind := r.objection(b, left); kind != "" {
			r.hold(kind, b.ID, text)
		} else if r.shrinks(b) {
			left--
			joining := *b
			joining.State = routing.Joining
			r.put(joining, Evicted, text)
			r.memory(b).evicting = true
		}
	}
}

// objection is the first limit that forbids to evict b, or nothing.
func (r *round) objection(b *routing.Backend, left int) Kind {
	switch {
	case r.report(b).Succeeded:
		return HeldSuccess
	case !r.in.Complete:
		return HeldReports
	case !r.until(r.in.LeaderSince, window):
		return HeldLeader
	case r.lost():
		return HeldMembers
	case left <= 0:
		if past := r.planner.evictions; len(past) > 0 {
			r.until(past[0], window)
		}
		return HeldRate
	case !r.limits.mayFall(b):
		return HeldFloor
	}
	return ""
}

// lost reports whether many of the routers that lived within the last window are gone.
func (r *round) lost() bool {
	gone := len(r.planner.routers)
	for _, name := range r.in.Members {
		if _, known := r.planner.routers[name]; known {
			gone--
		}
	}
	return gone*losable > len(r.planner.routers)
}

// clear removes what has drained. One that a source lists there still would only come back: it stays.
func (r *round) clear() {
	for i := range r.backends {
		b := &r.backends[i]
		m := r.memory(b)
		if f, listed := r.listed[b.ID]; b.State != routing.Draining || r.taken[b.ID] || listed && f.URL == b.URL {
			continue
		}
		r.again = min(r.again, counting)
		switch {
		case !m.idle.IsZero() && r.until(m.idle, settling):
			r.remove(b.ID, Drained, "nothing is in flight")
		case r.until(m.draining, r.planner.cfg.DrainLimit):
			r.remove(b.ID, Overdue, fmt.Sprintf("%d in flight after %s", r.report(b).InFlight, r.planner.cfg.DrainLimit))
		}
	}
}
