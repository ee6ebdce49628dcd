package routing

import "time"

// Defaults and limits of local ejection.
const (
	defaultEjection    = 5 * time.Second
	defaultEjectionMax = 5 * time.Minute
	defaultFailures    = 3
	// ejectableShare: a replica keeps away from at most one in so many of a group,
	// by ejections of its own and rumours together.
	ejectableShare = 5
)

// health is this replica's own opinion of a model server. It never changes the
// agreed state. Time is compared only where time is meant; what came before what
// is told by counters, so that no clock decides it.
type health struct {
	ejections    int           // in a row, without a success between them; 0 is healthy
	busyUntil    time.Duration // on the Picker's clock, like the next but one
	rumoured     bool          // the peers' opinion is believed; here since each choice reads it
	ejectedUntil time.Duration
	// ejectedPicks is load.picks at the last ejection: evidence from leases up to
	// there is older than the ejection and says nothing new.
	ejectedPicks uint64
	// probe is the number of the lease that is finding out, after an ejection,
	// whether the model server is well again; 0 for none.
	probe     uint64
	failures  int // in a row
	successes uint64
	succeeded time.Duration // the last one; 0 for none
	// unreachable: a refused connection was the reason of the last ejection.
	unreachable bool
}

// recent reports whether a request succeeded within keptSuccess.
func (h *health) recent(now time.Duration) bool {
	return h.succeeded > 0 && now < h.succeeded+keptSuccess
}

// shut reports whether requests must keep away: during an ejection, and after it
// while another request probes. The same goes for a rumour that is believed.
func (l *load) shut(now time.Duration) bool {
	until := l.ejectedUntil
	if l.ejections == 0 {
		if !l.believed(now) {
			return false
		}
		until = l.hushed
	}
	return l.probe != 0 || now < until
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
		p.succeed(ld, at)
	case Refused:
		p.eject(ld, o, at)
	case Failed:
		ld.failures++
		if ld.failures >= p.cfg.Failures || ld.ejections > 0 {
			p.eject(ld, o, at)
		}
	case Stalled:
		if ld.successes == l.successes {
			p.eject(ld, o, at)
		}
	}
}

// succeed takes a success for the end of whatever was wrong.
func (p *Picker) succeed(l *load, now time.Duration) {
	if l.ejections > 0 || !l.recent(now) {
		p.touch(l)
	}
	p.review = p.review || l.ejections > 0 // there is room for another one
	l.successes++
	l.succeeded = now
	l.failures, l.ejections, l.ejectedUntil, l.probe = 0, 0, 0, 0
}

// eject shuts a load for a while, twice as long as the time before. It does
// nothing when too many of the group are ejected already: a replica that sees
// that many fail is more likely to be the one that is cut off.
func (p *Picker) eject(l *load, why Outcome, now time.Duration) {
	if l.pool == nil || !l.pool.mayEject(l) {
		return
	}
	l.ejectedUntil = now + p.cfg.ejection(l.ejections)
	l.ejections++
	l.ejectedPicks, l.probe, l.failures = l.picks, 0, 0
	l.unreachable = why == Refused
	p.touch(l)
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
	return l.away() || pl.room() > 0
}

// away reports whether l is ejected or rumoured ill, on probation included.
func (l *load) away() bool { return l.ejections > 0 || l.rumoured }

// room is how many more of the group may be kept away.
func (pl *pool) room() int {
	room := max(1, len(pl.loads)/ejectableShare)
	for _, l := range pl.loads {
		if l.away() {
			room--
		}
	}
	return room
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
