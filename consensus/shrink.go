package consensus

import (
	"fmt"

	"github.com/warmring/warmring/routing"
)

// allowed answers those proposals that would, together with those before them in
// the entry, take more backends out of service than is allowed at once, and returns
// the others. What the log itself refuses is left to it.
func (l *Log) allowed(s *server, batch []*pending) []*pending {
	base, _ := s.machine.now()
	epoch := base
	var out []*pending
	for _, w := range batch {
		next, err := epoch.Apply(w.proposal.Change)
		switch {
		case err != nil || w.proposal.Base != (Base{}) && w.proposal.Base != (Base{epoch.Generation(), epoch.Number()}):
			out = append(out, w)
			continue
		case w.proposal.Force:
			base = next
		default:
			if err := checkShrink(base, next, l.deps.MaxShrink); err != nil {
				if w.taken.CompareAndSwap(false, true) {
					w.result <- outcome{err: err}
				}
				continue
			}
		}
		epoch = next
		out = append(out, w)
	}
	return out
}

// checkShrink refuses a step that takes more than the share of the active backends
// out of service; one may always go.
func checkShrink(from, to *routing.Epoch, share float64) error {
	stays := map[string]bool{}
	for _, b := range to.Backends() {
		stays[b.ID] = b.State == routing.Active
	}
	active, out := 0, 0
	for _, b := range from.Backends() {
		if b.State != routing.Active {
			continue
		}
		active++
		if !stays[b.ID] {
			out++
		}
	}
	if limit := max(1, int(share*float64(active))); out > limit {
		return fmt.Errorf("%w: %d of %d active backends, the limit is %d", ErrShrink, out, active, limit)
	}
	return nil
}
