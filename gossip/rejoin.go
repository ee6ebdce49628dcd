package gossip

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	firstPause   = time.Second // between attempts until there is a cluster to stay in
	resolveLimit = 5 * time.Second
	seedsMax     = 64 // seeds that are considered; gossip spreads the rest
	attemptsMax  = 3  // addresses that are tried in a round
)

// seeds is where other routers may be, and which of those places answered.
type seeds struct {
	mu       sync.Mutex // guards all below
	pending  bool       // they were never resolved
	resolved []netip.AddrPort
	answered map[netip.AddrPort]bool
}

func (s *seeds) set(resolved []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.resolved = false, resolved
	for at := range s.answered {
		if !slices.Contains(resolved, at) {
			delete(s.answered, at)
		}
	}
}

func (s *seeds) get() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolved
}

// note keeps whether the last attempt to join at was answered.
func (s *seeds) note(at netip.AddrPort, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !answered:
		delete(s.answered, at)
	case slices.Contains(s.resolved, at):
		s.answered[at] = true
	}
}

func (s *seeds) reached(alive map[netip.AddrPort]bool) (total, reached int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending {
		return 1, 0
	}
	for _, at := range s.resolved {
		if alive[at] || s.answered[at] {
			reached++
		}
	}
	return len(s.resolved), reached
}

// rejoiner brings this router into the cluster, and heals partitions: memberlist forgets those it cannot reach.
type rejoiner struct {
	m    *Mesh
	list *memberlist.Memberlist
	rand *rand.Rand
}

// run tries to reach seeds that are no members, and former members, until ctx is done: every second until somebody answers
// and this router belongs to a cluster, since those who found one wait for their seeds; then at the configured interval.
func (r *rejoiner) run(ctx context.Context) {
	r.m.met.Store(r.m.deps.Seeds == nil)
	for {
		if r.attempt(ctx) {
			r.m.met.Store(true)
		}
		pause := firstPause
		if r.m.met.Load() && r.m.meta.Load().Cluster != "" {
			pause = r.m.cfg.Rejoin + time.Duration(r.rand.Int64N(int64(r.m.cfg.Rejoin)/10))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// attempt is one round. It says whether there is anybody.
func (r *rejoiner) attempt(ctx context.Context) bool {
	r.resolve(ctx)
	signal(r.m.membersChanged) // some of the seeds may be members already, and to know that need not wait for those that hang
	var wait sync.WaitGroup
	for _, at := range r.choose() {
		wait.Go(func() { r.join(at) })
	}
	wait.Wait()
	signal(r.m.membersChanged)
	alive := r.m.roster.addresses()
	_, reached := r.m.seeds.reached(alive)
	return len(alive) > 0 || reached > 0
}

// resolve asks where the seeds are now. While that fails, the former answer counts.
func (r *rejoiner) resolve(ctx context.Context) {
	if r.m.deps.Seeds == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	found, err := r.m.deps.Seeds(ctx)
	if err != nil && ctx.Err() == nil {
		r.m.logs.warn("resolve", "seeds not resolved", "error", err)
	}
	if err != nil && len(found) == 0 {
		return
	}
	others := make([]netip.AddrPort, 0, len(found))
	for _, at := range found {
		at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		if at != r.m.deps.Advertise && !slices.Contains(others, at) && len(others) < seedsMax {
			others = append(others, at)
		}
	}
	r.m.seeds.set(others)
}

// choose picks the addresses of a round: seeds that are no members, and, the more members are lost the more often, one
// where a member was.
func (r *rejoiner) choose() []netip.AddrPort {
	alive := r.m.roster.addresses()
	var chosen []netip.AddrPort
	for _, at := range r.m.seeds.get() {
		if !alive[at] {
			chosen = append(chosen, at)
		}
	}
	r.rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:min(len(chosen), attemptsMax)]
	lost := r.m.roster.lost(time.Now())
	if len(lost) > 0 && r.rand.IntN(len(alive)+1) < len(lost) {
		if at := lost[r.rand.IntN(len(lost))]; !slices.Contains(chosen, at) {
			chosen = append(chosen, at)
		}
	}
	return chosen
}

func (r *rejoiner) join(at netip.AddrPort) {
	_, err := r.list.Join([]string{at.String()})
	r.m.seeds.note(at, err == nil)
	if err == nil || !slices.Contains(r.m.seeds.get(), at) {
		return
	}
	text := err.Error() // memberlist does not wrap what it reports, and makes a list of it
	if _, cause, ok := strings.Cut(text, at.String()+": "); ok {
		text = strings.TrimSpace(cause)
	}
	switch {
	case strings.Contains(text, ErrForeign.Error()), r.m.bridge.diagnose(text) != nil: // told already
	case strings.Contains(text, "EOF"), strings.Contains(text, "connection reset"):
		r.m.logs.warn("seed "+at.String(), "a seed hung up", "seed", at.String(), "error", text,
			"check", "cluster.name and gossip.key_file must be the same on all routers of a cluster, and peer.cert_file must be set on all or on none")
	default:
		r.m.logs.warn("seed "+at.String(), "a seed cannot be reached", "seed", at.String(), "error", text)
	}
}
