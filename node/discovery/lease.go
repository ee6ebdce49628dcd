package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/routing"
)

const (
	// maxLeases bounds the table.
	maxLeases = 10_000
	// maxText bounds what a lease holds; the fleet's own rules allow less.
	maxText = 1024
)

// Facts that a caller can tell apart with errors.Is.
var (
	// ErrTTL: the time of a lease is out of range.
	ErrTTL = errors.New("ttl")
	// ErrFull: there are too many leases for another one.
	ErrFull = fmt.Errorf("there are %d leases already", maxLeases)
	// ErrText: the names of a lease are too long.
	ErrText = fmt.Errorf("id, url, endpoint and variant may have %d bytes together", maxText)
)

// Leases is the leader's table of backends that registered themselves. Times given to its methods must be monotonic, as
// time.Now's are.
type Leases struct {
	longest time.Duration

	mu    sync.Mutex // guards table
	table map[string]lease
}

type lease struct {
	found plan.Found
	until time.Time
}

// NewLeases returns an empty table.
func NewLeases(cfg Config) *Leases { return &Leases{longest: cfg.LeaseMax, table: map[string]lease{}} }

// Renew takes a lease for ttl, 1 s to Config.LeaseMax, or prolongs it; what f says replaces what it said. The error is
// ErrTTL, ErrFull or ErrText. Whether the fleet's rules allow f is not asked.
func (l *Leases) Renew(f plan.Found, ttl time.Duration, now time.Time) error {
	if ttl < minLease || ttl > l.longest {
		return fmt.Errorf("%w: %s must be %s to %s", ErrTTL, ttl, minLease, l.longest)
	}
	if len(f.ID)+len(f.URL)+len(f.Endpoint)+len(f.Variant) > maxText {
		return ErrText
	}
	f.Source = plan.Lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.table[f.ID]; !known && len(l.table) >= maxLeases {
		if l.expire(now); len(l.table) >= maxLeases {
			return ErrFull
		}
	}
	l.table[f.ID] = lease{f, now.Add(ttl)}
	return nil
}

// Release ends a lease before its time. Without one it does nothing.
func (l *Leases) Release(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.table, id)
}

// Live returns the backends whose leases have not run out, sorted by id, and when the next one does; zero: none does.
func (l *Leases) Live(now time.Time) (found []plan.Found, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	for _, held := range l.table {
		found = append(found, held.found)
		if next.IsZero() || held.until.Before(next) {
			next = held.until
		}
	}
	slices.SortFunc(found, func(a, b plan.Found) int { return cmp.Compare(a.ID, b.ID) })
	return found, next
}

// expire forgets leases that ran out. The caller holds mu.
func (l *Leases) expire(now time.Time) {
	maps.DeleteFunc(l.table, func(_ string, held lease) bool { return !now.Before(held.until) })
}

// Restart begins anew on a new leader, which does not know when the leases of its predecessor end: each backend of the
// epoch that came by a lease has Config.LeaseMax to renew it. Those that drain already have run out.
func (l *Leases) Restart(now time.Time, backends []routing.Backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.table)
	for _, b := range backends {
		if b.Source == plan.Lease && b.State != routing.Draining {
			l.table[b.ID] = lease{plan.Found{
				ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, Weight: b.Weight, MaxInflight: b.MaxInflight,
				Source: plan.Lease,
			}, now.Add(l.longest)}
		}
	}
}
