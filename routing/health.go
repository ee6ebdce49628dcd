package routing

import "time"

// Defaults and limits of local ejection.
const (
	defaultEjection    = 5 * time.Second
	defaultEjectionMax = 5 * time.Minute
	defaultFailures    = 3
	// ejectableShare: one replica ejects at most one in so many of a group.
	ejectableShare = 5
)

// health is this replica's own opinion of a model server. It never changes the
// agreed state. Time is compared only where time is meant; what came before what
// is told by counters, so that no clock decides it.
type health struct {
	ejections    int           // in a row, without a success between them; 0 is healthy
	busyUntil    time.Duration // on the Picker's clock, like the next
	ejectedUntil time.Duration
	// ejectedPicks is load.picks at the last ejection: evidence from leases up to
	// there is older than the ejection and says nothing new.
	ejectedPicks uint64
	// probe is the number of the lease that is finding out, after an ejection,
	// whether the model server is well again; 0 for none.
	probe     uint64
	failures  int // in a row
	successes uint64
}

// shut reports whether requests must keep away: during an ejection, and after it
// while another request probes.
func (h *health) shut(now time.Duration) bool {
	return h.ejections > 0 && (h.probe != 0 || now < h.ejectedUntil)
}

// Outcome is what a request says about the health of its model server.
type Outcome uint8

// The outcomes.
const (
	// Succeeded: an answer began. Any status below 500 is one: a client's mistake
	// is not the server's, and it shows that the server lives.
	Succeeded Outcome = iota
	// Refused: no connection could be made. Ejects at once.
	Refused
	// Failed: a 5xx answer that is not Busy, or a broken connection. Several in a
	// row eject.
	Failed
	// Stalled: no first token in time. Ejects at once, unless another request
	// succeeded there since this one began.
	Stalled
)

// Report says how the request went, as soon as that is known; it may come before
// or after Release. Requests from before an ejection neither prolong nor end it: a
// burst that fails is one piece of evidence, and a server that shuts down still
// finishes its streams while it refuses connections.
func (l *Lease) Report(o Outcome, now time.Time) {
	p, ld := l.picker, l.load
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.clock(now)
	l.endProbe()
	if l.number <= ld.ejectedPicks || (o != Succeeded && at < ld.ejectedUntil) {
		return
	}
	switch o {
	case Succeeded:
		ld.successes++
		ld.failures, ld.ejections, ld.ejectedUntil, ld.probe = 0, 0, 0, 0
	case Refused:
		p.eject(ld, at)
	case Failed:
		ld.failures++
		if ld.failures >= p.cfg.Failures || ld.ejections > 0 {
			p.eject(ld, at)
		}
	case Stalled:
		if ld.successes == l.successes {
			p.eject(ld, at)
		}
	}
}

// eject shuts a load for a while, twice as long as the time before. It does
// nothing when too many of the group are ejected already: a replica that sees
// that many fail is more likely to be the one that is cut off.
func (p *Picker) eject(l *load, now time.Duration) {
	if l.pool == nil || !l.pool.mayEject(l) {
		return
	}
	l.ejectedUntil = now + p.cfg.ejection(l.ejections)
	l.ejections++
	l.ejectedPicks, l.probe, l.failures = l.picks, 0, 0
}

// ejection is the length of the ejection after so many in a row.
func (c *PickerConfig) ejection(before int) time.Duration {
	d := c.Ejection
	for range before {
		if d >= c.EjectionMax/2 {
			return c.EjectionMax
		}
		d *= 2
	}
	return min(d, c.EjectionMax)
}

// mayEject reports whether l is ejected already, on probation included, or the
// group has room for one more.
func (pl *pool) mayEject(l *load) bool {
	if l.ejections > 0 {
		return true
	}
	ejected := 0
	for _, other := range pl.loads {
		if other.ejections > 0 {
			ejected++
		}
	}
	return ejected < max(1, len(pl.loads)/ejectableShare)
}

// Busy says that the model server asked for less until then (429, or 503 with
// Retry-After). That is load, not health: others are preferred while there are
// any. The caller bounds the time.
func (l *Lease) Busy(until time.Time) {
	p := l.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	l.load.busyUntil = max(l.load.busyUntil, p.clock(until))
}
