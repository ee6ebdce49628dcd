package routing

import (
	"math"
	"slices"
	"time"
)

// status says whether a candidate may be chosen.
type status uint8

const (
	open  status = iota
	busy         // asked for less; chosen when nothing is open
	full         // at its hard cap
	shut         // ejected or rumoured ill, or a probe is under way after that
	tried        // failed this request
)

// String is the reason that explain gives.
func (s status) String() string {
	switch s {
	case open:
		return "open"
	case busy:
		return "busy"
	case full:
		return "full"
	case shut:
		return "ejected"
	case tried:
		return "tried"
	}
	return "unknown"
}

// choice is one decision: the place, the view at this moment and what was found
// so far. The Picker's mutex is held as long as it lives.
type choice struct {
	place Place
	loads []*load
	tried []string
	draw  uint64
	now   time.Duration

	warm      warm    // with `auto`
	lesson    *lesson // of the endpoint, with `auto`
	serial    uint64  // names the decision, with `auto`
	panicking bool    // so many are ejected that ejections are ignored
	allOpen   bool    // every candidate is open
	worst     status  // the worst status that may be chosen: open or busy
	acting    int     // the first of the ranking that may be chosen
}

// choice begins a decision. The error is ErrNoBackend.
func (p *Picker) choice(pl *Place, tried []string, draw uint64, now time.Duration) (c choice, err error) {
	c.place, c.tried, c.draw, c.now = pl.in(p.epoch.Load()), tried, draw, now
	if c.place.home < 0 {
		return c, ErrNoBackend
	}
	c.acting = c.place.home
	pool := &p.pools[c.place.group.ordinal]
	c.loads, c.lesson = pool.loads, pool.lesson
	if c.form() == auto {
		p.recall(&c)
	}
	return c, nil
}

// prepare finds out who may be chosen and who acts as home. The errors are
// ErrNoBackend and ErrSaturated.
func (c *choice) prepare() error {
	if err := c.survey(); err != nil {
		return err
	}
	if c.status(c.acting) > c.worst {
		c.acting = c.deputy()
	}
	return nil
}

// deputy is the first that may be chosen of those that share the hot part of the prompt, else of all.
func (c *choice) deputy() int {
	if f := c.ranked(1); f.n > 0 {
		return f.list[0]
	}
	return c.least(even, c.place.pin)
}

// status of candidate i.
func (c *choice) status(i int) status {
	l := c.loads[i]
	if len(c.tried) == 0 && l.fit(c.now) {
		return open
	}
	return c.unfit(l)
}

// unfit is the status of a load against which something may speak.
func (c *choice) unfit(l *load) status {
	switch {
	case slices.Contains(c.tried, l.backend.ID):
		return tried
	case !c.panicking && l.shut(c.now):
		return shut
	case l.requests() >= l.most:
		return full
	case c.now < l.busyUntil:
		return busy
	}
	return open
}

// survey sets what depends on all candidates: panicking, allOpen and worst.
func (c *choice) survey() error {
	n := c.count()
	if 2*(len(c.loads)-n[shut]) < len(c.loads) {
		c.panicking = true
		n = c.count()
	}
	c.allOpen = n[open] == len(c.loads)
	switch {
	case n[open] > 0:
		c.worst = open
	case n[busy] > 0:
		c.worst = busy
	case n[full] > 0:
		return ErrSaturated
	default:
		return ErrNoBackend
	}
	return nil
}

func (c *choice) count() (n [tried + 1]int) {
	n[open] = len(c.loads)
	for _, l := range c.loads {
		if len(c.tried) == 0 && l.fit(c.now) {
			continue
		}
		n[open]--
		n[c.unfit(l)]++
	}
	return n
}

// choose returns the index of the candidate to take. The errors are ErrNoBackend
// and ErrSaturated.
func (c *choice) choose() (int, error) {
	if i := c.favourite(); c.status(i) == open && c.unbeaten(i) {
		return i, nil
	}
	if err := c.prepare(); err != nil {
		return -1, err
	}
	switch c.form() {
	case random, least:
		return c.least(c.measure(), c.draw), nil
	case fixed:
		return c.bounded(), nil
	default: // auto
		return c.auto(), nil
	}
}

// favourite is the candidate that is taken if nothing speaks against it.
func (c *choice) favourite() int {
	if c.form() == random {
		return c.place.group.keys.first(c.draw)
	}
	return c.place.home
}

// unbeaten reports whether the favourite, which is open, wins whatever the others'
// loads are, so that nobody needs to look at them. It is the usual case.
func (c *choice) unbeaten(i int) bool {
	switch c.form() {
	case random:
		return true
	case fixed:
		most := c.place.group.policy.ConcurrencyThreshold
		if most == 0 {
			most = slack // the relative bound is never less
		}
		return c.loads[i].requests() < most
	case auto:
		return c.cost(prefill, i) <= 0 // ties go to it
	default: // least
		return false
	}
}

// least returns the cheapest of those that may be chosen. Ties go by the ranking
// of the pin; the one that acts as home is looked at first, since it mostly wins.
func (c *choice) least(m measure, pin uint64) int {
	keys := &c.place.group.keys
	if m == even && c.allOpen {
		return keys.first(pin)
	}
	best, low := -1, math.Inf(1)
	if c.status(c.acting) <= c.worst {
		best, low = c.acting, c.cost(m, c.acting)
	}
	top, widest := -1.0, uint64(unit) // score of best, once a tie has asked for it
	for i, l := range c.loads {
		if m == prefill && l.floor() > low || !c.allOpen && c.unfit(l) > c.worst {
			continue
		}
		x := c.cost(m, i)
		if x > low || x == low && keys.gap(i, pin) > widest {
			continue
		}
		if x < low {
			best, low, top, widest = i, x, -1, unit
			continue
		}
		if top < 0 {
			top = keys.score(best, pin)
			widest = keys.widest(top)
		}
		if s := keys.score(i, pin); s > top {
			best, top, widest = i, s, keys.widest(s)
		}
	}
	return best
}

// decision names the reason for choosing candidate i.
func (c *choice) decision(i int) Decision {
	form := c.form()
	switch {
	case len(c.tried) > 0:
		return DecisionRetry
	case form == random:
		return DecisionRandom
	case form == least:
		return DecisionLeast
	case i == c.place.home:
		return DecisionHome
	case form == auto && (c.loads[i].mark == c.serial || !c.place.contains(i) && c.proven(i)):
		return DecisionPlaced
	case form == auto && c.place.hot > 0 && c.place.contains(i):
		return DecisionHot
	}
	return DecisionOverflow
}

func (c *choice) form() form { return c.place.group.form }
