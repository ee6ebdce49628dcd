package consensus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const (
	leaveLook  = 50 * time.Millisecond
	leaderless = 3 * time.Second // without a leader nobody can be replaced
)

// Leave hands leadership over and then waits until this replica is no voter any
// more, if another can take its seat. Gossip must say that it is leaving before, so
// that the leader knows. It ends at the latest with ctx.
func (l *Log) Leave(ctx context.Context) error {
	l.leaving.Store(true)
	s := l.current.Load()
	if s == nil {
		return nil
	}
	if s.leads() && len(s.voters()) > 1 {
		if err := l.await(ctx, s.raft.LeadershipTransfer()); err != nil {
			l.log.WarnContext(ctx, "leadership was not handed over", "error", err)
		}
	}
	ticker := time.NewTicker(leaveLook)
	defer ticker.Stop()
	led := time.Now() // when a leader was last known
	for l.replaceable(s) && time.Since(led) < leaderless {
		if s.leader() != "" {
			led = time.Now()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("left while still a voter: %w", ctx.Err())
		}
	}
	return nil
}

// replaceable reports that s holds a seat that a leader would give to another or do
// without.
func (l *Log) replaceable(s *server) bool {
	if s.raft.State() == raft.Shutdown {
		return false
	}
	voters := s.voters()
	if !slices.Contains(voters, s.identity().Server) {
		return false
	}
	holders, standby := l.holders(s, 0)
	staying := len(standby)
	for _, h := range holders {
		if h.alive && !h.left && h.server != s.identity().Server {
			staying++
		}
	}
	return staying >= len(voters) || len(voters) > max(l.deps.Expect, seatsFor(staying, l.deps.Expect))
}
