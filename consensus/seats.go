package consensus

import (
	"slices"
	"time"
)

const (
	// deadAfter is how long a voter must be gone from gossip and silent to raft. A voter that was only cut off loses its
	// seat by it and follows as a subscriber later, which costs nothing; a seat that stays empty costs the cluster its
	// quorum at the next fault, such as the next step of a rolling restart.
	deadAfter = 15 * time.Second
	// settled is how long a leader must have led before it changes voters: its
	// heartbeats have reached, or failed to reach, everyone by then. It can be short
	// because deadAfter begins anew with each leader.
	settled = 2 * time.Second
	// caughtUp is how long a new server must have been fed before it gets a vote: the
	// state is one snapshot and at most a few hundred entries.
	caughtUp = time.Second
)

// seatsFor is how many voters a cluster of so many alive replicas has: 3, or 5 from
// five on; not less than expect, and not more than there are. Of two replicas one
// votes: with two voters the end of either would stop agreement.
func seatsFor(alive, expect int) int {
	n := 3
	switch {
	case alive >= 5:
		n = 5
	case alive == 2:
		n = 1
	}
	return min(max(n, expect), alive)
}

// holder is a server in raft's configuration, as the leader sees it.
type holder struct {
	server string
	voter  bool
	alive  bool          // in gossip
	left   bool          // said that it is leaving
	silent time.Duration // least of: since it was in gossip, since it answered raft, since I lead
	fed    time.Duration // how long it has been in the configuration; for non-voters
}

// going reports that it gives up its seat, or lost it.
func (h holder) going() bool { return h.left || (!h.alive && h.silent >= deadAfter) }

func (h holder) reason() string {
	if h.left {
		return "it is leaving"
	}
	return "it is dead"
}

type step uint8

const (
	stepNone step = iota
	stepAdd       // as a non-voter
	stepPromote
	stepRemove
)

// move is one change of raft's configuration.
type move struct {
	step   step
	server string
	why    string
}

// seats decides the next change. A voter is removed only when enough others hold a
// seat, so the number of working voters never falls under what it should be; or when
// it is gone and more are seated than should be, since then it only raises the
// majority. self is the leader, standby are replicas of this cluster without a seat,
// in order.
func seats(self string, expect int, holders []holder, standby []string) move {
	alive, voters := len(standby), 0
	for _, h := range holders {
		if h.going() {
			continue
		}
		if h.alive {
			alive++
		}
		if h.voter {
			voters++
		}
	}
	want := seatsFor(max(alive, 1), expect)
	if i := slices.IndexFunc(holders, func(h holder) bool { return !h.voter }); i >= 0 {
		return promote(holders[i], voters < want) // one change at a time
	}
	if voters < want && len(standby) > 0 {
		return move{stepAdd, standby[0], "a voter is missing"}
	}
	least := max(want, expect)
	for _, h := range holders {
		if h.going() && h.server != self && (voters >= least || !h.alive && len(holders) > least) {
			return move{stepRemove, h.server, h.reason()}
		}
	}
	return move{}
}

// promote decides on a server that has no vote yet.
func promote(h holder, needed bool) move {
	switch {
	case h.going() || !h.alive || !needed:
		return move{stepRemove, h.server, "it holds no vote and is not needed"}
	case h.fed >= caughtUp && h.silent < caughtUp:
		return move{stepPromote, h.server, "it has caught up"}
	default:
		return move{}
	}
}
