package consensus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

// stand asks all others to promise a ballot, and founds when all did.
func (l *Log) stand(ctx context.Context, v view, a action) error {
	b, err := l.ballot(v, a)
	if err != nil {
		return err
	}
	if refused := l.Promised(b); refused != nil {
		l.setWaiting("waiting to found the cluster: " + refused.Error())
		return nil //nolint:nilerr // a refusal is an ordinary answer; it is tried again
	}
	began := time.Now()
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for _, n := range v.others {
		if n.Leaving {
			continue
		}
		group.Go(func() error {
			asking, cancel := context.WithTimeout(asking, askTimeout)
			defer cancel()
			return l.deps.Peers.Promise(asking, n.Address, b)
		})
	}
	if refused := group.Wait(); refused != nil {
		l.setWaiting("waiting for all replicas to agree on founding the cluster: " + refused.Error())
		return nil //nolint:nilerr // a refusal is an ordinary answer; it is tried again
	}
	if time.Since(began) > promiseTime/2 { // paused: who promised may have moved on
		return nil
	}
	return l.found(ctx, b)
}

// ballot is this candidate's ballot, a new one when the voters or the generation
// changed.
func (l *Log) ballot(v view, a action) (Ballot, error) {
	l.mu.Lock()
	b := l.mine
	l.mu.Unlock()
	if b.Candidate == v.self.Server && b.Generation == a.generation && slices.Equal(b.Voters, a.voters) && (a.cluster == "" || a.cluster == b.Cluster) {
		return b, nil
	}
	b = Ballot{Candidate: v.self.Server, Cluster: a.cluster, Generation: a.generation, Expect: l.deps.Expect, Voters: a.voters}
	if b.Cluster == "" {
		var err error
		if b.Cluster, err = newID(l.deps.Random); err != nil {
			return Ballot{}, err
		}
	}
	l.mu.Lock()
	l.mine = b
	l.mu.Unlock()
	return b, nil
}

// withdraw releases those who promised a ballot that this replica gave up. Whom it
// does not reach is released by time.
func (l *Log) withdraw(ctx context.Context) {
	l.mu.Lock()
	b := l.mine
	l.mine = Ballot{}
	members := slices.Clone(l.members)
	if b.Candidate != "" && l.promise.ballot.Candidate == b.Candidate && !l.sealedTo(b) {
		l.promise = promise{}
	}
	sealed := l.sealedTo(b)
	l.mu.Unlock()
	if b.Candidate == "" || sealed {
		return
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for _, m := range members {
		if m.Name == l.deps.Name {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			_ = l.deps.Peers.Promise(ctx, m.Address, Ballot{Candidate: b.Candidate}) // best effort
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors
}

// sealedTo reports that this server went on to found with the ballot.
func (l *Log) sealedTo(b Ballot) bool {
	id := l.current.Load().identity()
	return b.Cluster != "" && id.Cluster == b.Cluster && id.Generation == b.Generation
}

// found begins the cluster or generation that all have promised. The list of voters
// is raft's first entry; the first epoch follows when all of them are sealed.
func (l *Log) found(ctx context.Context, b Ballot) error {
	return l.exclusively(ctx, func(s *server) error {
		l.mu.Lock()
		held := l.promise.ballot.Candidate == b.Candidate && l.promise.ballot.Cluster == b.Cluster && slices.Equal(l.promise.ballot.Voters, b.Voters)
		l.mu.Unlock()
		id := s.identity()
		if !held || id.Server != b.Candidate || (!id.blank() && (id.Cluster != b.Cluster || id.Generation >= b.Generation)) {
			return nil // the world moved on
		}
		s, err := l.seal(ctx, s, b.Cluster, b.Generation)
		if err != nil {
			return err
		}
		var servers []raft.Server
		for _, voter := range b.Voters {
			servers = append(servers, raft.Server{ID: raft.ServerID(voter), Address: raft.ServerAddress(voter)})
		}
		err = s.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return err
		}
		l.log.InfoContext(ctx, "founding cluster", "cluster", b.Cluster, "generation", b.Generation, "voters", b.Voters)
		s.elect(ctx, l.log)
		return nil
	})
}
