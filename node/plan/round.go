package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// round is one decision in the making.
type round struct {
	in       *Input
	planner  *Planner
	backends []routing.Backend          // of the epoch, by id
	have     map[string]routing.Backend // the same
	listed   map[string]Found           // by id: what its owner says, or who may own it
	silent   map[string]bool            // sources that said nothing now
	limits   *limits
	taken    map[string]bool // backends that this round changes already

	change  routing.Change
	reasons []Reason
	held    []Reason
	again   time.Duration
}

func newRound(p *Planner, in *Input) *round {
	r := &round{
		in: in, planner: p, backends: in.Epoch.Backends(), taken: map[string]bool{},
		again: resting,
	}
	r.have = make(map[string]routing.Backend, len(r.backends))
	for _, b := range r.backends {
		r.have[b.ID] = b
	}
	r.limits = newLimits(p.cfg.MaxShrink, r.backends)
	return r
}

// put proposes b, new or in place of what is there.
func (r *round) put(b routing.Backend, kind Kind, text string) {
	r.count(&b)
	r.change.PutBackends = append(r.change.PutBackends, b)
	r.because(kind, b.ID, text)
}

// count brings the limits to the fleet with b.
func (r *round) count(b *routing.Backend) {
	if was, known := r.have[b.ID]; known {
		r.limits.replace(&was, b)
	} else {
		r.limits.add(b, 1)
	}
}

func (r *round) remove(id string, kind Kind, text string) {
	r.change.RemoveBackends = append(r.change.RemoveBackends, id)
	r.because(kind, id, text)
}

func (r *round) because(kind Kind, subject, text string) {
	r.taken[subject] = true
	r.reasons = append(r.reasons, Reason{kind, subject, text})
}

func (r *round) hold(kind Kind, subject, text string) {
	r.held = append(r.held, Reason{kind, subject, text})
}

// until asks to be called again when wait has passed since t. It reports whether that is so already.
func (r *round) until(t time.Time, wait time.Duration) bool {
	left := wait - r.in.Now.Sub(t)
	if left <= 0 {
		return true
	}
	r.again = min(r.again, left)
	return false
}

// sift takes out of the change what the fleet's rules refuse: a source may list anything. What the later rules propose is
// a new state of what is there, and never refused.
func (r *round) sift() {
	if len(r.change.PutBackends) == 0 {
		return
	}
	_, err := r.in.Epoch.Apply(r.change)
	if err == nil {
		return
	}
	refused := map[string]bool{}
	for _, b := range r.change.PutBackends {
		for _, e := range fields(err) {
			field, its := strings.CutPrefix(e.Path, "backends["+b.ID+"].")
			if its && !strings.Contains(field, "]") && !refused[b.ID] { // an id may hold anything but blanks
				r.hold(HeldInvalid, b.ID, e.Error())
				refused[b.ID] = true
				delete(r.taken, b.ID)
			}
		}
	}
	r.change.PutBackends = slices.DeleteFunc(r.change.PutBackends, func(b routing.Backend) bool { return refused[b.ID] })
	r.reasons = slices.DeleteFunc(r.reasons, func(s Reason) bool { return refused[s.Subject] })
	r.limits = newLimits(r.planner.cfg.MaxShrink, r.backends)
	for i := range r.change.PutBackends {
		r.count(&r.change.PutBackends[i])
	}
}

// fields takes the errors of Apply apart.
func fields(err error) []*routing.ChangeError {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		var all []*routing.ChangeError
		for _, e := range joined.Unwrap() {
			all = append(all, fields(e)...)
		}
		return all
	}
	if e, is := errors.AsType[*routing.ChangeError](err); is {
		return []*routing.ChangeError{e}
	}
	return nil
}

func (r *round) decision() Decision {
	return Decision{
		Change: r.change, Empty: r.change.Empty(),
		Reasons: r.reasons, Held: r.held, Again: max(r.again, time.Millisecond),
	}
}

// Check says whether the fleet's rules would let f in, with one *routing.ChangeError for each field that is wrong.
func Check(e *routing.Epoch, f Found) error {
	b := placed(e.Endpoints(), f)
	if _, err := e.Apply(routing.Change{PutBackends: []routing.Backend{b}}); err != nil {
		return fmt.Errorf("%s lists %s: %w", f.Source, f.ID, err)
	}
	return nil
}
