package peer

import (
	"fmt"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
)

// take puts a message of source to use.
func (f *Feed) take(source Source, reply *peerpb.WatchReply) error {
	if len(reply.GetImage()) > 0 {
		return f.takeImage(source, reply)
	}
	return f.takeSteps(source, reply.GetSteps())
}

// takeSteps applies what is new of the steps to the epoch at hand, which may have
// moved on by another way, and hands on the last one.
func (f *Feed) takeSteps(source Source, wire []*peerpb.Step) error {
	e := f.cfg.History.Latest()
	var steps []Step
	for _, w := range wire {
		step, err := stepFromWire(w)
		if err != nil {
			return err
		}
		have := VersionOf(e)
		if step.Version.Compare(have) < 0 || step.Version == have {
			continue
		}
		if e, err = apply(e, step); err != nil {
			return err
		}
		if is := VersionOf(e); is != step.Version {
			f.cfg.OnMismatch(source.Name, is, step.Version)
			return fmt.Errorf("%w: %s instead of %s", errWhole, is, step.Version)
		}
		steps = append(steps, step)
	}
	if len(steps) > 0 {
		f.cfg.OnEpoch(e, steps)
	}
	return nil
}

// apply makes the epoch of a step. A step that bears the name of the epoch at hand
// leaves it: the caller compares the contents.
func apply(e *routing.Epoch, step Step) (*routing.Epoch, error) {
	have := VersionOf(e)
	if step.Version.Contradicts(have) {
		return e, nil
	}
	if step.Version.Generation != have.Generation || step.Version.Number != have.Number+1 {
		return nil, fmt.Errorf("%w: the step to %s does not follow on %s", errWhole, step.Version, have)
	}
	next, err := e.Apply(step.Change)
	if err != nil {
		return nil, fmt.Errorf("%w: step to %s: %w", errWhole, step.Version, err)
	}
	return next, nil
}

// takeImage replaces the epoch at hand by a newer one. One of the same version but
// another content is taken from a voter only: two followers that do not agree would
// exchange theirs for ever.
func (f *Feed) takeImage(source Source, reply *peerpb.WatchReply) error {
	e, err := epochFromBytes(reply.GetImage())
	if err != nil {
		return err
	}
	is, theirs, have := VersionOf(e), versionFromWire(reply.GetVersion()), f.have()
	if is != theirs {
		f.cfg.OnMismatch(source.Name, is, theirs)
		return fmt.Errorf("the image of %s makes %s", theirs, is)
	}
	contradicts := is.Contradicts(have)
	if contradicts {
		f.cfg.OnMismatch(source.Name, have, is)
	}
	if is.Compare(have) > 0 || contradicts && source.Voter {
		f.cfg.OnEpoch(e, nil)
	}
	return nil
}
