package consensus

import (
	"cmp"
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
// more, if another can take its seat, and until the others have a majority without
// it, if somebody is about to give them one. Gossip must say that it is leaving before, so
// that the leader knows. It ends at the latest with ctx.
func (l *Log) Leave(ctx context.Context) error {
	l.leaving.Store(true)
	s := l.current.Load()
	if s == nil {
		return nil
	}
	if s.leads() && len(s.voters()) > 1 {
		if err := l.await(ctx, l.handOver(s)); err != nil {
			l.log.WarnContext(ctx, "leadership was not handed over", "error", err)
		}
	}
	ticker := time.NewTicker(leaveLook)
	defer ticker.Stop()
	led := time.Now() // when a leader was last known
	for (l.replaceable(s) || l.missed(s)) && time.Since(led) < leaderless {
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

// missed reports that without s there is no majority now, and will be one soon:
// somebody is about to get a seat, or to lose one that stands empty. A router that is
// restarted right after another one waits like this for that one's return.
func (l *Log) missed(s *server) bool {
	self, voters := s.identity().Server, s.voters()
	if s.raft.State() == raft.Shutdown || !slices.Contains(voters, self) {
		return false
	}
	holders, standby := l.holders(s, 0)
	working, coming, empty := 0, len(standby), 0
	for _, h := range holders {
		switch {
		case !h.alive:
			empty++
		case h.left || h.server == self:
		case h.voter:
			working++
		default:
			coming++
		}
	}
	return 2*working <= len(voters) && (coming > 0 || empty > 0 && len(voters) > l.deps.Expect)
}

// handOver begins a transfer of leadership to the voter that was heard last. raft would choose the one with the longest log,
// which may be gone.
func (l *Log) handOver(s *server) raft.Future {
	holders, _ := l.holders(s, 0)
	holders = slices.DeleteFunc(holders, func(h holder) bool {
		return !h.voter || !h.alive || h.left || h.server == s.identity().Server
	})
	if len(holders) == 0 {
		return s.raft.LeadershipTransfer()
	}
	next := slices.MinFunc(holders, func(a, b holder) int { return cmp.Compare(a.silent, b.silent) }).server
	return s.raft.LeadershipTransferToServer(raft.ServerID(next), raft.ServerAddress(next))
}
