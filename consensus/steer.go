package consensus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

const (
	steerEvery  = 250 * time.Millisecond
	steerPause  = 20 * time.Millisecond // between two looks, however often it is poked
	askEvery    = 500 * time.Millisecond
	askTimeout  = time.Second
	askAtOnce   = 32 // routers
	answerTime  = 3 * time.Second
	rumourTime  = 2 * time.Second // a subscriber asks again for the quorum after it
	storeErrors = 3               // in a row, before a leader hands over
)

// answer is a router's latest Hello.
type answer struct {
	hello Hello
	at    time.Time
}

func (a answer) fresh(now time.Time) bool { return now.Sub(a.at) < answerTime }

// steer looks again and again at what this replica is and should be.
func (l *Log) steer(ctx context.Context) error {
	ticker := time.NewTicker(steerEvery)
	defer ticker.Stop()
	var said string
	for {
		err := l.look(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			l.log.WarnContext(ctx, "cluster membership not settled", "error", err)
			said = err.Error()
		}
		select { // not at once, even when poked: whoever pokes may be answering us
		case <-time.After(steerPause):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-ticker.C:
		case <-l.poked:
		case <-ctx.Done():
			return nil
		}
	}
}

// look decides once and does it.
func (l *Log) look(ctx context.Context) error {
	s := l.current.Load()
	id := s.identity()
	_, aborted := s.machine.now()
	switch {
	case aborted:
		return l.forget(ctx, id)
	case s.raft.State() == raft.Shutdown: // removed
		return l.reset(ctx, id.Cluster, id.Generation)
	}
	l.ask(ctx, s)
	v := l.view()
	if v.self.Quorum || v.hasQuorum() {
		l.patient()
	}
	a := decide(v)
	if a.deed != deedFound {
		l.withdraw(ctx)
	}
	if a.deed != deedFollow && (v.self.Quorum || s.leads()) {
		a = action{why: cmp.Or(l.leaderWhy(s), v.foreign())}
	}
	if a.deed != deedFound { // stand says itself what it waits for
		l.setWaiting(a.why)
	}
	switch a.deed {
	case deedBind:
		return l.exclusively(ctx, func(s *server) error {
			if !s.identity().blank() {
				return nil
			}
			return l.bind(s, a.cluster, a.generation)
		})
	case deedFollow:
		return l.reset(ctx, a.cluster, a.generation)
	case deedForget:
		if s.stores.commands() { // it may have been founded: only its voters can tell
			l.setWaiting("waiting for the other voters of cluster " + id.Cluster)
			return nil
		}
		return l.forget(ctx, id)
	case deedFound:
		return l.stand(ctx, v, a)
	default:
		return l.lead(ctx, s)
	}
}

// forget leaves a founding that failed. Its generation is not used again.
func (l *Log) forget(ctx context.Context, id identity) error {
	if id.Generation <= 1 {
		return l.reset(ctx, "", 0)
	}
	return l.reset(ctx, id.Cluster, id.Generation)
}

// ask says hello to those whose word may matter now.
func (l *Log) ask(ctx context.Context, s *server) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for _, m := range l.worthAsking(s, time.Now()) {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			hello, err := l.deps.Peers.Hello(ctx, m.Address)
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.answers, m.Name) // silence is no answer
			if err == nil && hello.Name == m.Name {
				l.answers[m.Name] = answer{hello, time.Now()}
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors
}

// worthAsking chooses whom to ask: with a leader only those who seem to be of a later
// generation, as a subscriber whoever knew a leader, and otherwise everybody.
func (l *Log) worthAsking(s *server, now time.Time) []Member {
	id := s.identity()
	settled := s.quorum()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all, later, sure []Member
	current := false
	for _, m := range l.members {
		if m.Name == l.deps.Name {
			continue
		}
		a, ok := l.answers[m.Name]
		if ok && a.hello.Quorum && !id.blank() && a.hello.Cluster == id.Cluster && a.hello.Generation == id.Generation {
			sure = append(sure, m)
			current = current || now.Sub(a.at) < rumourTime
		}
		if ok && now.Sub(a.at) < askEvery {
			continue
		}
		all = append(all, m)
		if m.Cluster == id.Cluster && m.Generation > id.Generation {
			later = append(later, m)
		}
	}
	switch {
	case settled || current:
		return later
	case len(sure) > 0:
		return append(later, sure[:min(len(sure), 2)]...)
	default:
		return all
	}
}

// view gathers what decide needs.
func (l *Log) view() view {
	now := time.Now()
	self := l.Hello()
	v := view{self: self, name: l.deps.Name, expect: l.deps.Expect, patience: l.cfg.NewGenerationAfter}
	v.seated = slices.Contains(l.current.Load().voters(), self.Server)
	v.lost = now.Sub(*l.quorumAt.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	v.calm = now.Sub(l.came)
	v.known, v.seeds, v.reached = len(l.known), l.seeds, l.reached
	for _, m := range l.members {
		if m.Name == l.deps.Name {
			continue
		}
		a, ok := l.answers[m.Name]
		v.others = append(v.others, neighbour{Member: m, answered: ok && a.fresh(now), hello: a.hello})
	}
	return v
}

// setWaiting keeps the reason for Status, and says a disagreement that will not go
// away by itself once in the log.
func (l *Log) setWaiting(why string) {
	old := l.waiting.Swap(&why)
	if old != nil && *old == why {
		return
	}
	if why != "" {
		l.log.Info("cluster is not settled", "reason", why)
	}
	l.deps.OnChange()
}

// leaderWhy is what a replica with a leader waits for. It hands leadership over when
// the store keeps failing.
func (l *Log) leaderWhy(s *server) string {
	if l.vault.failures() < storeErrors {
		if missing := unsealed(s); !s.founded() && missing != "" {
			return fmt.Sprintf("waiting for server %s to take part in founding cluster %s", missing, s.identity().Cluster)
		}
		return ""
	}
	if s.leads() {
		l.handOver(s)
	}
	return "the data file cannot be written (consensus.data_dir): this replica does not lead"
}
