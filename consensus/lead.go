package consensus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/warmring/warmring/routing"
)

const (
	// foundingTime is how long a leader tries to reach all voters of a founding.
	foundingTime = 10 * time.Second
	leadTimeout  = 5 * time.Second // of one step
	imagesAsked  = 5               // replicas that may hold a newer epoch
)

// lead does what only a leader does: it founds, gives a founding up, and seats
// voters. On the others it does nothing.
func (l *Log) lead(ctx context.Context, s *server) error {
	since := s.leaderSince.Load()
	if !s.leads() || since == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	led := time.Since(time.Unix(0, since))
	if s.founded() {
		if led < settled {
			return nil
		}
		return l.seat(ctx, s, led)
	}
	if missing := unsealed(s); missing != "" {
		if led < foundingTime {
			return nil
		}
		l.log.WarnContext(ctx, "founding given up", "cluster", s.identity().Cluster, "missing", missing)
		return l.enter(ctx, s, command{Abort: true})
	}
	epoch, err := l.firstEpoch(ctx, s.identity())
	if err != nil {
		return err
	}
	return l.enter(ctx, s, command{Found: &founding{Cluster: s.identity().Cluster, Image: epoch.Image()}})
}

// unsealed is a voter that never admitted a connection of this founding, or "". A
// majority is not enough here: a voter that is missing may have promised itself to
// another founding, and both would go on.
func unsealed(s *server) string {
	heard := s.stream.contacts()
	for _, voter := range s.voters() {
		if _, ok := heard[voter]; !ok && voter != s.identity().Server {
			return voter
		}
	}
	return ""
}

// firstEpoch makes the epoch of a generation: the file's for the first, the newest
// that any replica holds for a later one.
func (l *Log) firstEpoch(ctx context.Context, id identity) (*routing.Epoch, error) {
	newest := l.deps.Latest()
	if id.Generation > 1 {
		newest = l.newestHeld(ctx, newest)
		if newest != nil {
			return newest.Succeed(id.Generation), nil
		}
	}
	first, err := l.deps.First()
	switch {
	case err != nil:
		return nil, fmt.Errorf("make the first epoch: %w", err)
	case id.Generation > 1:
		return first.Succeed(id.Generation), nil
	case first.Number() == 0: // 0 means not founded
		return first.Apply(routing.Change{})
	default:
		return first, nil
	}
}

// newestHeld asks for the epoch of whoever says that it has a newer one.
func (l *Log) newestHeld(ctx context.Context, newest *routing.Epoch) *routing.Epoch {
	l.mu.Lock()
	members := slices.Clone(l.members)
	l.mu.Unlock()
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(b.Generation, a.Generation), cmp.Compare(b.Number, a.Number))
	})
	members = slices.DeleteFunc(members, func(m Member) bool { return m.Name == l.deps.Name })
	for _, m := range members[:min(len(members), imagesAsked)] {
		image, err := l.imageOf(ctx, m)
		if err == nil && (newest == nil || image.Compare(newest) > 0) {
			newest = image
		}
	}
	return newest
}

func (l *Log) imageOf(ctx context.Context, m Member) (*routing.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	image, err := l.deps.Peers.Image(ctx, m.Address)
	if err != nil {
		return nil, err
	}
	return image.Epoch()
}

// enter writes one entry and waits for it.
func (l *Log) enter(ctx context.Context, s *server, c command) error {
	raw, err := c.encode()
	if err != nil {
		return err
	}
	future := s.raft.Apply(raw, leadTimeout)
	if err := l.await(ctx, future); err != nil {
		return err
	}
	err, _ = future.Response().(error)
	return err
}

// await waits for raft's answer or for ctx: without a quorum there may never be one.
func (l *Log) await(ctx context.Context, future raft.Future) error {
	answered := make(chan error, 1)
	l.futures.Go(func() { answered <- future.Error() })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seat makes the next change of voters, if one is due.
func (l *Log) seat(ctx context.Context, s *server, led time.Duration) error {
	holders, standby := l.holders(s, led)
	m := seats(s.identity().Server, l.deps.Expect, holders, standby)
	if m.step == stepNone {
		return nil
	}
	var future raft.Future
	id, address := raft.ServerID(m.server), raft.ServerAddress(m.server)
	switch m.step {
	case stepAdd:
		l.mu.Lock()
		l.added = time.Now()
		l.mu.Unlock()
		future = s.raft.AddNonvoter(id, address, 0, leadTimeout)
	case stepPromote:
		future = s.raft.AddVoter(id, address, 0, leadTimeout)
	default:
		future = s.raft.RemoveServer(id, 0, leadTimeout)
	}
	if err := l.await(ctx, future); err != nil {
		return fmt.Errorf("change the voters (server %s, %s): %w", m.server, m.why, err)
	}
	l.log.InfoContext(ctx, "voters changed", "server", m.server, "reason", m.why, "voters", s.voters())
	l.deps.OnChange()
	return nil
}

// holders describes raft's configuration, and who could take a seat.
func (l *Log) holders(s *server, led time.Duration) ([]holder, []string) {
	now := time.Now()
	id := s.identity()
	heard := s.stream.contacts()
	l.mu.Lock()
	defer l.mu.Unlock()
	var holders []holder
	seated := map[string]bool{}
	for _, server := range s.configuration() {
		name := string(server.ID)
		seated[name] = true
		h := holder{server: name, voter: server.Suffrage == raft.Voter, silent: led}
		if last, ok := heard[name]; ok {
			h.silent = min(h.silent, now.Sub(last))
		}
		if d, ok := l.gone[name]; ok {
			h.left = d.leaving
			_, h.alive = l.address[name]
			if !h.alive {
				h.silent = min(h.silent, now.Sub(d.at))
			}
			if !h.alive && l.taken(d.address) {
				h.silent = deadAfter // one port, one process: it is dead for certain
			}
		}
		if name == id.Server {
			h.alive, h.silent = true, 0
		}
		if !h.voter {
			h.fed = min(led, now.Sub(l.added))
		}
		holders = append(holders, h)
	}
	var standby []string
	for _, m := range l.members {
		if !seated[m.Server] && !m.Leaving && !m.Blank && m.Cluster == id.Cluster && m.Generation == id.Generation {
			standby = append(standby, m.Server)
		}
	}
	slices.Sort(standby)
	return holders, standby
}

// taken reports that a member is at the address. The caller holds the lock.
func (l *Log) taken(address string) bool {
	return slices.ContainsFunc(l.members, func(m Member) bool { return m.Address == address })
}
