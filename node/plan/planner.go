package plan

import (
	"maps"
	"time"

	"github.com/warmring/warmring/routing"
)

const (
	// window is how long lost routers and evictions are remembered, and how long a new leader only looks.
	window = time.Minute
	// gazing is the longest time between two calls over which a verdict counts as unbroken.
	gazing = 15 * time.Second
	// resting is the longest time that Next lets pass until it is asked again.
	resting = 5 * time.Second
	// counting is the same while a backend drains: that its last request has ended wakes nobody.
	counting = 500 * time.Millisecond
)

// Planner holds the leader's memory. It learns from the epochs that it is shown and not from its own decisions: one that
// was refused leaves no trace. The one exception is an eviction after which somebody drained or removed the backend before the
// next epoch was shown: that counts too. It is for one goroutine.
type Planner struct {
	cfg       Config
	leader    time.Time // the leadership that the memory is of
	last      time.Time // of the latest input
	routers   map[string]time.Time
	backends  map[Key]*memory
	flaps     map[string]flap // by id
	evictions []time.Time     // within the last window
}

// memory is what the leader saw of one backend. Times say since when something holds; zero: it does not.
type memory struct {
	last     routing.Backend // as in the latest epoch
	evicted  bool            // it was active before it joined
	evicting bool            // the latest decision evicts it
	ready    time.Time       // joining, and a majority says ready
	dead     time.Time       // active, and a majority says dead
	unlisted time.Time       // its source lists it no more
	draining time.Time
	idle     time.Time // draining, with nothing in flight anywhere
}

// New returns a planner that has seen nothing.
func New(cfg Config) *Planner { return &Planner{cfg: cfg} }

// Next returns what to propose now, all of it in one change. Equal inputs to equal planners give equal decisions, and a
// second call with the same input gives the same decision again.
func (p *Planner) Next(in Input) Decision {
	r := newRound(p, &in)
	r.listen()
	p.observe(r)
	r.enter()
	r.sift()
	r.admit() // before others leave: they may have waited for it
	r.leave()
	r.evict()
	r.clear()
	return r.decision()
}

// observe brings the memory up to date with the input.
func (p *Planner) observe(r *round) {
	in := r.in
	if p.backends == nil || !in.LeaderSince.Equal(p.leader) {
		*p = Planner{
			cfg: p.cfg, leader: in.LeaderSince, routers: map[string]time.Time{},
			backends: map[Key]*memory{}, flaps: map[string]flap{},
		}
	} else if in.Now.Sub(p.last) > gazing {
		for _, m := range p.backends {
			m.ready, m.dead, m.idle = time.Time{}, time.Time{}, time.Time{}
		}
	}
	p.last = in.Now
	p.recall(in)
	p.notice(r)
	for i := range r.backends {
		r.look(&r.backends[i])
	}
}

// recall notes which routers live, and forgets what is older than the window.
func (p *Planner) recall(in *Input) {
	for _, name := range in.Members {
		p.routers[name] = in.Now
	}
	maps.DeleteFunc(p.routers, func(_ string, seen time.Time) bool { return in.Now.Sub(seen) >= window })
	maps.DeleteFunc(p.flaps, func(_ string, f flap) bool { return f.over(in.Now) })
	for len(p.evictions) > 0 && in.Now.Sub(p.evictions[0]) >= window {
		p.evictions = p.evictions[1:]
	}
}

// notice compares the epoch with the one before: what came and went since.
func (p *Planner) notice(r *round) {
	before := p.backends
	p.backends = make(map[Key]*memory, len(r.backends))
	addresses := make(map[string]Key, len(before))
	for key := range before {
		addresses[key.ID] = key
	}
	for _, b := range r.backends {
		key := Key{b.ID, b.Incarnation}
		m, known := before[key]
		if !known {
			m = &memory{}
			if old, moved := addresses[b.ID]; moved && b.Source != "" && before[old].last.State != routing.Draining {
				p.flapped(b.ID, r.in.Now)
			}
		} else {
			p.compare(m, b, r.in.Now)
		}
		m.last = b
		p.backends[key] = m
	}
	for key, m := range before { // what compare does not see: somebody drained or removed what was just evicted
		if is := p.backends[key]; m.evicting && (is == nil || is.last.State == routing.Draining) {
			p.evictions = append(p.evictions, r.in.Now)
		}
		m.evicting = false
	}
}

// compare counts the steps that a flapping backend makes again and again.
func (p *Planner) compare(m *memory, b routing.Backend, now time.Time) {
	was := m.last
	switch {
	case was.State == routing.Active && b.State == routing.Joining && was.Endpoint == b.Endpoint && was.Variant == b.Variant:
		m.evicted = true
		p.flapped(b.ID, now)
		p.evictions = append(p.evictions, now)
	case was.State != routing.Draining && b.State == routing.Draining && b.Source != "":
		p.flapped(b.ID, now)
	case b.Source != was.Source && b.Source != "":
		p.flapped(b.ID, now)
	}
}

// since keeps t the time when on began to hold.
func since(t *time.Time, on bool, now time.Time) {
	switch {
	case !on:
		*t = time.Time{}
	case t.IsZero():
		*t = now
	}
}

// look notes since when what is said of a backend holds.
func (r *round) look(b *routing.Backend) {
	now, report := r.in.Now, r.in.Reports[Key{b.ID, b.Incarnation}]
	m := r.memory(b)
	since(&m.ready, b.State == routing.Joining && r.vote(b, report.Ready).majority(), now)
	since(&m.dead, b.State == routing.Active && r.vote(b, report.Dead).majority(), now)
	since(&m.unlisted, r.unlisted(b), now)
	since(&m.draining, b.State == routing.Draining, now)
	since(&m.idle, b.State == routing.Draining && r.in.Complete && report.InFlight <= 0, now)
}

func (r *round) memory(b *routing.Backend) *memory {
	return r.planner.backends[Key{b.ID, b.Incarnation}]
}

// vote counts the backend's observers that say something. Ranking them is spared when nobody says it.
func (r *round) vote(b *routing.Backend, say []string) vote {
	if len(say) == 0 {
		return vote{}
	}
	return count(Observers(r.in.Members, b.ID), say)
}
