package consensus

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	promiseTime = 10 * time.Second // since the candidate last asked
	votersLimit = 9
	idLimit     = 64 // bytes
)

// promise is the one ballot that this replica has agreed to. It keeps competing
// candidates apart; what makes two foundings with a common voter impossible is that a
// server is sealed into one cluster only, and a founding needs all of its voters
// sealed (see DESIGN.md).
type promise struct {
	ballot Ballot
	until  time.Time
}

func (p promise) holds(now time.Time) bool { return p.ballot.Cluster != "" && now.Before(p.until) }

// Promised decides on a peer's ballot: nil is a promise, an error wraps ErrRefused.
func (l *Log) Promised(b Ballot) error {
	s := l.current.Load()
	if s == nil {
		return fmt.Errorf("%w: this replica is starting", ErrRefused)
	}
	if len(b.Voters) > votersLimit || len(b.Cluster) > idLimit || len(b.Candidate) > idLimit {
		return fmt.Errorf("%w: it is too large", ErrRefused)
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Cluster == "" {
		if l.promise.ballot.Candidate == b.Candidate {
			l.promise = promise{}
		}
		return nil
	}
	if err := l.mayPromise(s, b, now); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	l.promise = promise{ballot: b, until: now.Add(promiseTime)}
	return nil
}

// mayPromise says why not. The caller holds the lock.
func (l *Log) mayPromise(s *server, b Ballot, now time.Time) error {
	id := s.identity()
	if l.leaving.Load() {
		return fmt.Errorf("server %s is leaving", id.Server)
	}
	if b.Expect != l.deps.Expect {
		return fmt.Errorf("cluster.expect is %d here and %d there", l.deps.Expect, b.Expect)
	}
	if l.promise.holds(now) && l.promise.ballot.Candidate != b.Candidate {
		return fmt.Errorf("server %s has promised server %s", id.Server, l.promise.ballot.Candidate)
	}
	if !id.blank() && (id.Cluster != b.Cluster || id.Generation >= b.Generation) {
		return fmt.Errorf("server %s belongs to generation %d of cluster %s", id.Server, id.Generation, id.Cluster)
	}
	if s.quorum() {
		return fmt.Errorf("server %s knows a leader", id.Server)
	}
	for name, a := range l.answers {
		if a.fresh(now) && a.hello.Quorum && (id.blank() || a.hello.Cluster == id.Cluster) {
			return fmt.Errorf("cluster %s lives: router %s knows a leader", a.hello.Cluster, name)
		}
	}
	return nil
}

// sealFor binds this server to what it promised when a voter of the ballot connects
// to it as to another. From then on it never takes part in another founding under
// this server id.
func (l *Log) sealFor(ctx context.Context, theirs greeting) error {
	if !l.sealable(theirs) {
		return nil
	}
	return l.exclusively(ctx, func(s *server) error {
		id := s.identity()
		if !l.sealable(theirs) || id.Server != theirs.Target || (id.Cluster == theirs.Cluster && id.Generation >= theirs.Generation) {
			return nil
		}
		_, err := l.seal(ctx, s, theirs.Cluster, theirs.Generation)
		return err
	})
}

func (l *Log) sealable(theirs greeting) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.promise.ballot
	return theirs.Cluster != "" && b.Cluster == theirs.Cluster && b.Generation == theirs.Generation &&
		slices.Contains(b.Voters, theirs.ID) && slices.Contains(b.Voters, theirs.Target)
}

// seal binds s to the cluster and generation under its present server id. What it
// had of an earlier generation is dropped in the same step, so it cannot go back.
func (l *Log) seal(ctx context.Context, s *server, cluster string, generation uint64) (*server, error) {
	id := s.identity()
	if id.blank() {
		return s, l.bind(s, cluster, generation)
	}
	store, err := newID(l.deps.Random)
	if err != nil {
		return nil, err
	}
	return l.replace(ctx, s, identity{Server: id.Server, Cluster: cluster, Generation: generation, Store: store})
}
