package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/warmring/warmring/routing"
)

const (
	queueLength = 256 // proposals that wait for an entry
	batchLimit  = 64  // proposals in one entry
	// entryTimeout bounds the wait for one entry; a leader that cannot commit steps
	// down long before.
	entryTimeout = 10 * time.Second
)

// pending is a proposal on its way into an entry.
type pending struct {
	proposal Proposal
	size     int
	taken    atomic.Bool // by the committer, or by the caller who gives up
	result   chan outcome
}

// Propose applies a change to the epoch and returns the epoch that it made. A
// repetition of a request id returns what the first one made, or a later epoch when
// that is no longer held. Proposals that wait together share one entry.
//
// Errors: a *routing.ChangeError for a change that does not fit, or one that wraps
// ErrNotLeader, ErrNoQuorum, ErrConflict, ErrShrink, ErrBusy, ErrTooLarge or, when it
// may yet have been applied, ErrUnknown.
func (l *Log) Propose(ctx context.Context, p Proposal) (*routing.Epoch, error) {
	if err := l.canPropose(); err != nil {
		return nil, err
	}
	raw, err := command{Batch: []proposed{p.entry()}}.encode()
	if err != nil {
		return nil, err
	}
	w := &pending{proposal: p, size: len(raw), result: make(chan outcome, 1)}
	select {
	case l.queue <- w:
	default:
		return nil, fmt.Errorf("%w: %d", ErrBusy, queueLength)
	}
	select {
	case out := <-w.result:
		return out.epoch, out.err
	case <-ctx.Done():
		if w.taken.CompareAndSwap(false, true) {
			return nil, fmt.Errorf("the change was not proposed: %w", ctx.Err())
		}
		return nil, fmt.Errorf("%w (%w)", ErrUnknown, ctx.Err())
	}
}

func (p Proposal) entry() proposed {
	return proposed{ID: p.ID, Base: p.Base, Change: p.Change, By: p.By}
}

// canPropose is nil on the leader of a founded cluster.
func (l *Log) canPropose() error {
	s := l.current.Load()
	switch {
	case s == nil:
		return ErrNoQuorum
	case s.leads() && s.founded():
		return nil
	case s.leads(), s.leader() == "", s.leader() == s.identity().Server:
		return ErrNoQuorum
	default:
		return &NotLeaderError{Leader: s.leader()}
	}
}

// commit turns waiting proposals into entries, at most one in each gap: the first
// proposal after a quiet time goes at once.
func (l *Log) commit(ctx context.Context) error {
	var last time.Time
	var held *pending // did not fit into the last entry
	for {
		first := held
		if first == nil {
			select {
			case first = <-l.queue:
			case <-ctx.Done():
				return nil
			}
		}
		if pause := l.deps.Gap - time.Since(last); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
		var batch []*pending
		batch, held = l.gather(first)
		last = time.Now()
		l.writeBatch(ctx, batch)
	}
}

// gather takes what waits, as far as it fits into one entry.
func (l *Log) gather(first *pending) (batch []*pending, held *pending) {
	batch, size := []*pending{first}, first.size
	for len(batch) < batchLimit {
		select {
		case next := <-l.queue:
			if size += next.size; size > entryLimit {
				return batch, next
			}
			batch = append(batch, next)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// writeBatch writes one entry and answers those in it.
func (l *Log) writeBatch(ctx context.Context, batch []*pending) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	s := l.current.Load()
	err := l.canPropose()
	if err == nil {
		err = l.caughtUp(ctx, s)
	}
	if err == nil {
		batch = l.allowed(s, batch)
	}
	var c command
	var in []*pending
	for _, w := range batch {
		if !w.taken.CompareAndSwap(false, true) {
			continue // its caller gave up
		}
		if err != nil {
			w.result <- outcome{err: err}
			continue
		}
		in = append(in, w)
		c.Batch = append(c.Batch, w.proposal.entry())
	}
	if len(in) == 0 {
		return
	}
	results, err := l.enterBatch(ctx, s, c)
	for i, w := range in {
		if err != nil {
			w.result <- outcome{err: err}
			continue
		}
		w.result <- results[i]
	}
}

// caughtUp waits, once in each term, until this leader has applied what its
// predecessors committed: what is refused here is judged by the newest epoch.
func (l *Log) caughtUp(ctx context.Context, s *server) error {
	term := s.raft.CurrentTerm()
	if s.barrier == term {
		return nil
	}
	if err := l.await(ctx, s.raft.Barrier(entryTimeout)); err != nil {
		return fmt.Errorf("%w (%w)", ErrNoQuorum, err)
	}
	s.barrier = term
	return nil
}

// enterBatch returns an outcome for each proposal of the entry.
func (l *Log) enterBatch(ctx context.Context, s *server, c command) ([]outcome, error) {
	raw, err := c.encode()
	if err != nil {
		return nil, err
	}
	future := s.raft.Apply(raw, entryTimeout)
	err = l.await(ctx, future)
	switch {
	case err == nil:
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		// raft did not take it into its log.
		return nil, fmt.Errorf("%w (%w)", ErrNoQuorum, err)
	default:
		return nil, fmt.Errorf("%w (%w)", ErrUnknown, err)
	}
	switch response := future.Response().(type) {
	case []outcome:
		return response, nil
	case error:
		return nil, response
	default:
		return nil, fmt.Errorf("%w (raft answered %T)", ErrUnknown, response)
	}
}
