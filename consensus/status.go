package consensus

import (
	"slices"
	"time"

	"github.com/warmring/warmring/routing"
)

// Hello is what this replica answers its peers.
func (l *Log) Hello() Hello {
	h := Hello{Name: l.deps.Name, Expect: l.deps.Expect}
	l.mu.Lock()
	for _, m := range l.members {
		if m.Server != "" { // not known yet
			h.Members = append(h.Members, m.Server)
		}
	}
	l.mu.Unlock()
	slices.Sort(h.Members)
	s := l.current.Load()
	if s == nil {
		return h // no server yet: it is like one that does not answer
	}
	id := s.identity()
	h.Server, h.Cluster, h.Generation, h.Blank = id.Server, id.Cluster, id.Generation, id.blank()
	if h.Quorum = s.quorum(); h.Quorum {
		for _, server := range s.configuration() {
			h.Seats = append(h.Seats, string(server.ID))
		}
		slices.Sort(h.Seats)
	}
	if epoch, _ := s.machine.now(); epoch != nil {
		h.Number = epoch.Number()
	} else if len(s.configuration()) == 0 { // not in raft: what it was told is all it has
		if latest := l.deps.Latest(); latest != nil && latest.Generation() == id.Generation {
			h.Number = latest.Number()
		}
	}
	return h
}

// Epoch is the newest one of this replica's own log, nil where there is none, as on a subscriber.
func (l *Log) Epoch() *routing.Epoch {
	s := l.current.Load()
	if s == nil {
		return nil
	}
	epoch, _ := s.machine.now()
	return epoch
}

// Status describes this replica. It does not wait for anything.
func (l *Log) Status() Status {
	var st Status
	if why := l.waiting.Load(); why != nil {
		st.Waiting = *why
	}
	s := l.current.Load()
	if s == nil {
		return st
	}
	id := s.identity()
	st.Server, st.Cluster, st.Generation = id.Server, id.Cluster, id.Generation
	st.Leader, st.Voters, st.PreVote = s.leader(), s.voters(), s.preVote
	st.Term, st.LastIndex, st.Applied = s.raft.CurrentTerm(), s.raft.LastIndex(), s.raft.AppliedIndex()
	slices.Sort(st.Voters)
	switch {
	case id.blank():
		st.Role = Blank
	case s.leads():
		st.Role = Leader
	case slices.Contains(st.Voters, id.Server):
		st.Role = Voter
	default:
		st.Role = Subscriber
	}
	if last := s.raft.LastContact(); st.Role == Voter && !last.IsZero() {
		st.LastContact = time.Since(last)
	}
	st.Quorum = s.quorum() || st.Role != Blank && l.told()
	return st
}

// told reports that a voter of this cluster said lately that it knows a leader.
func (l *Log) told() bool {
	id := l.current.Load().identity()
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.fresh(now) && a.hello.Quorum && a.hello.Cluster == id.Cluster {
			return true
		}
	}
	return false
}
