package telemetry

import "time"

// ring keeps tallies of the last len(slots) steps of time. A slot whose step is too old counts as empty, so nobody has to
// clear the ring while nothing happens. Steps are numbered from the Unix epoch: two rings agree on where a step begins.
type ring struct {
	width time.Duration
	slots []slot
}

type slot struct {
	step  int64
	tally tally
}

// newRing covers n whole steps besides the one that runs.
func newRing(width time.Duration, n int) *ring {
	return &ring{width: width, slots: make([]slot, n+1)}
}

func (r *ring) step(t time.Time) int64 { return max(t.UnixNano(), 0) / int64(r.width) }

func (r *ring) begin(step int64) time.Time { return time.Unix(0, step*int64(r.width)) }

// at is the tally of the step that now is in.
func (r *ring) at(now time.Time) *tally {
	step := r.step(now)
	s := &r.slots[step%int64(len(r.slots))]
	if s.step != step {
		*s = slot{step: step}
	}
	return &s.tally
}

// whole is the tally of a step that is over; nil when nothing happened in it, or it is too long ago.
func (r *ring) whole(step int64) *tally {
	s := &r.slots[step%int64(len(r.slots))]
	if s.step != step {
		return nil
	}
	return &s.tally
}

// sum adds up the whole steps before now and the one that runs, and says what span that is; it begins at since at the
// earliest.
func (r *ring) sum(now, since time.Time) (tally, time.Duration) {
	var all tally
	running := r.step(now)
	from := max(running-int64(len(r.slots))+1, 0)
	for step := from; step <= running; step++ {
		if t := r.whole(step); t != nil {
			all.merge(t)
		}
	}
	begin := r.begin(from)
	if begin.Before(since) {
		begin = since
	}
	return all, max(now.Sub(begin), time.Second)
}
