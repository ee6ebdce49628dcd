package routing

import "time"

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
	Cost     float64
	Eligible bool
	Reason   string // why it is not eligible: busy, full, ejected or rumoured
}

// Explain returns the candidates in the map's order with what Pick would weigh
// now. It reserves nothing.
func (p *Picker) Explain(pl *Place, now time.Time) []Candidate {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.choice(pl.in(p.epoch.Load()), nil, 0, p.clock(now))
	if err != nil {
		return nil
	}
	_ = c.prepare() // that nobody may be chosen shows in the candidates
	out := make([]Candidate, 0, len(c.loads))
	for rank, i := range c.place.order() {
		out = append(out, c.explain(rank, i))
	}
	return out
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
	}
	return out
}
