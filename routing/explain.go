package routing

import (
	"slices"
	"time"
)

// Candidate is the terms of the choice for one model server.
type Candidate struct {
	Backend  Backend
	Rank     int // place in the map's order, from 0
	InFlight int // requests of this replica
	// PrefillTokens is its pending prefill work in token equivalents.
	PrefillTokens int64
	// PeerInFlight and PeerPrefill are the same of all other replicas, as last heard.
	PeerInFlight int
	PeerPrefill  int64
	// Have is how many tokens of the prompt it is expected to hold.
	Have int
	// Cost is what the strategy minimises; 0 where it does not compare.
	Cost float64
	// With `auto`: whether it shares the hot part of the prompt, and how many tokens the directory says it was sent.
	Hot    bool
	Placed int
	// Work is what the prompt would have it do, in token equivalents; Pace how many times slower than the others it is,
	// Late how many times longer than expected its oldest request waits for a first token.
	Work, Pace, Late float64
	// Filled is how much of its cache was ever written to, from 0 to 1, where nobody holds the prompt: of equal costs the least
	// wins then, and else the rank.
	Filled float64
	// Beyond says that a prompt nobody holds does not look so far down the ranking.
	Beyond   bool
	Eligible bool
	Reason   string // why it is not eligible: busy, full, ejected or rumoured
}

// Explain returns the candidates in the map's order with what Pick would weigh
// now. It reserves nothing.
func (p *Picker) Explain(pl *Place, now time.Time) []Candidate {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.choice(pl, nil, 0, p.clock(now))
	if err != nil {
		return nil
	}
	_ = c.prepare() // that nobody may be chosen shows in the candidates
	out := make([]Candidate, 0, len(c.loads))
	first := c.ranked(c.warm.first)
	for rank, i := range c.place.order() {
		x := c.explain(rank, i)
		if c.warm.first > 0 {
			x.Filled = c.loads[i].clock.filled()
			x.Beyond = i != c.acting && !c.proven(i) && !slices.Contains(first.list[:first.n], i)
		}
		out = append(out, x)
	}
	return out
}

// PromptTokens estimates the length of the prompt in tokens from what answers taught.
func (p *Picker) PromptTokens(pl *Place) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.lessons[pl.group.endpoint]; ok {
		return s.count(pl.size)
	}
	return pl.Tokens()
}

func (c *choice) explain(rank, i int) Candidate {
	l := c.loads[i]
	out := Candidate{
		Backend: *l.backend, Rank: rank, InFlight: l.inflight, PrefillTokens: l.prefill,
		PeerInFlight: l.peers.inflight, PeerPrefill: l.peers.prefill,
	}
	switch s := c.status(i); {
	case s <= c.worst:
		out.Eligible = true
	case s == shut && l.ejections == 0:
		out.Reason = "rumoured"
	default:
		out.Reason = s.String()
	}
	m := c.measure()
	out.Cost = c.cost(m, i)
	if m == prefill {
		out.Have = c.have(i)
		out.Work = c.own(i)
		out.Hot = c.place.hot > 0 && c.place.contains(i)
		if l.mark == c.serial {
			out.Placed = l.placed
		}
		out.Pace, out.Late = l.pace.ratio(c.warm.doubt), l.late(c.now)
	}
	return out
}
