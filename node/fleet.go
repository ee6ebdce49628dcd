package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/routing"
)

// drainPoll is how often a leaving backend's requests are counted.
const drainPoll = 250 * time.Millisecond

// fleet brings the epoch to what the configuration wants, and takes backends out when their last request is over.
type fleet struct {
	picker  *routing.Picker
	onEpoch func(*routing.Epoch)
	grace   time.Duration // how long a backend that left the configuration may finish
	log     *slog.Logger
	changed chan struct{} // one place: the set of leaving backends may have changed

	mu      sync.Mutex           // guards what follows, and makes one change at a time
	epoch   *routing.Epoch       // the latest
	leaving map[string]time.Time // draining backends, and when each is removed at the latest
}

func newFleet(generation, salt uint64, picker *routing.Picker, onEpoch func(*routing.Epoch), grace time.Duration, log *slog.Logger) *fleet {
	return &fleet{
		picker: picker, onEpoch: onEpoch, grace: grace, log: log, changed: make(chan struct{}, 1),
		epoch: routing.NewEpoch(generation, salt), leaving: map[string]time.Time{},
	}
}

// want makes the fleet equal to the given one in one step, or changes nothing. Backends that are no longer wanted drain.
func (f *fleet) want(endpoints []routing.Endpoint, backends []routing.Backend) error {
	return f.change(func(e *routing.Epoch) (routing.Change, bool) {
		c := drainFirst(e, routing.Diff(e, endpoints, backends), endpoints)
		return c, len(c.PutEndpoints)+len(c.RemoveEndpoints)+len(c.PutBackends)+len(c.RemoveBackends)+len(c.Drain) > 0
	})
}

// drainFirst lets the backends that c removes drain instead, unless their endpoint or variant goes too. Those leave at
// once: nobody can ask for them any more, and the picker keeps count of what they still carry.
func drainFirst(e *routing.Epoch, c routing.Change, wanted []routing.Endpoint) routing.Change {
	places := map[[2]string]bool{}
	for _, ep := range wanted {
		for _, v := range ep.Variants {
			places[[2]string{ep.Name, v.Name}] = true
		}
	}
	removed := c.RemoveBackends
	c.RemoveBackends = nil
	for _, b := range e.Backends() {
		switch {
		case !slices.Contains(removed, b.ID):
		case !places[[2]string{b.Endpoint, b.Variant}]:
			c.RemoveBackends = append(c.RemoveBackends, b.ID)
		case b.State != routing.Draining:
			c.Drain = append(c.Drain, b.ID)
		}
	}
	return c
}

// change applies what plan makes of the latest epoch.
func (f *fleet) change(plan func(*routing.Epoch) (routing.Change, bool)) error {
	f.mu.Lock()
	change, some := plan(f.epoch)
	if !some {
		f.mu.Unlock()
		return nil
	}
	next, err := f.epoch.Apply(change)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.epoch = next
	f.note(next, time.Now())
	f.mu.Unlock()

	f.picker.SetEpoch(next) // both ignore an epoch that is older than theirs, so two changes may meet here
	f.onEpoch(next)
	select {
	case f.changed <- struct{}{}:
	default:
	}
	f.log.Info("fleet changed", slog.String("epoch", next.ID()),
		slog.Int("put_endpoints", len(change.PutEndpoints)), slog.Any("removed_endpoints", change.RemoveEndpoints),
		slog.Int("put_backends", len(change.PutBackends)), slog.Any("drained", change.Drain), slog.Any("removed_backends", change.RemoveBackends))
	return nil
}

// note keeps the deadline of backends that were draining before, and gives one to the new ones. The caller holds mu.
func (f *fleet) note(e *routing.Epoch, now time.Time) {
	leaving := map[string]time.Time{}
	for _, b := range e.Backends() {
		if b.State != routing.Draining {
			continue
		}
		until, known := f.leaving[b.ID]
		if !known {
			until = now.Add(f.grace)
		}
		leaving[b.ID] = until
	}
	f.leaving = leaving
}

// run removes drained backends until ctx ends.
func (f *fleet) run(ctx context.Context) error {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		if f.removeDrained(time.Now()) {
			tick.Reset(drainPoll)
		} else {
			tick.Stop() // nobody leaves: sleep until somebody does
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		case <-tick.C:
		}
	}
}

// removeDrained takes out the leaving backends that have nothing in flight or no time left. It reports whether some stay.
func (f *fleet) removeDrained(now time.Time) bool {
	err := f.change(func(e *routing.Epoch) (routing.Change, bool) {
		if len(f.leaving) == 0 {
			return routing.Change{}, false
		}
		busy := map[string]bool{}
		for _, l := range f.picker.Snapshot(now) {
			busy[l.Backend.ID] = busy[l.Backend.ID] || l.InFlight > 0
		}
		var gone []string
		for _, b := range e.Backends() {
			if until, leaving := f.leaving[b.ID]; leaving && (!busy[b.ID] || !now.Before(until)) {
				gone = append(gone, b.ID)
			}
		}
		return routing.Change{RemoveBackends: gone}, len(gone) > 0
	})
	if err != nil { // removing what is there cannot be refused; if it is, the next round tries again
		f.log.Error("drained backends stay", slog.Any("error", err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.leaving) > 0
}
