package peer

import (
	"slices"
	"sync"

	"github.com/warmring/warmring/routing"
)

// historySize is how many steps are kept. At two epochs a second it is half a minute:
// who was away for longer takes the image.
const historySize = 64

// History holds the newest epoch and the last steps that led to it. It is safe for
// concurrent use.
type History struct {
	changed signal

	mu     sync.Mutex // guards what follows
	latest *routing.Epoch
	base   Version // before the first step
	steps  []Step  // without a gap, the last one made latest; replaced, never written to
}

// NewHistory returns a history that begins with e and has no steps.
func NewHistory(e *routing.Epoch) *History { return &History{latest: e, base: VersionOf(e)} }

// News reports whether Add would take e.
func (h *History) News(e *routing.Epoch) bool {
	return isNews(VersionOf(h.Latest()), VersionOf(e))
}

func isNews(was, is Version) bool { return is.Compare(was) >= 0 && is != was }

// Add takes an epoch and the steps that made it of the one before, and reports
// whether it is news: newer than what is here, or of the same version with another
// content, which a caller passes only if it trusts e more. Where the steps do not
// connect, all steps are forgotten, and who follows gets the image.
func (h *History) Add(e *routing.Epoch, steps ...Step) bool {
	if !h.add(e, steps) {
		return false
	}
	h.changed.raise()
	return true
}

func (h *History) add(e *routing.Epoch, steps []Step) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, is := VersionOf(h.latest), VersionOf(e)
	if !isNews(was, is) {
		return false
	}
	h.latest = e
	news := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Version.Compare(was) <= 0 })
	if !connect(was, is, news) {
		h.base, h.steps = is, nil
		return true
	}
	all := slices.Concat(h.steps, news)
	if extra := len(all) - historySize; extra > 0 {
		h.base, all = all[extra-1].Version, all[extra:]
	}
	h.steps = all
	return true
}

// connect reports whether the steps lead from one version to the other.
func connect(from, to Version, steps []Step) bool {
	for _, s := range steps {
		if s.Version.Generation != from.Generation || s.Version.Number != from.Number+1 {
			return false
		}
		from = s.Version
	}
	return len(steps) > 0 && from == to
}

// Latest is the newest epoch.
func (h *History) Latest() *routing.Epoch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// Steps returns the steps that are kept, oldest first.
func (h *History) Steps() []Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.steps)
}

// Since returns the newest epoch and the steps that lead to it from have. ok is false
// when they are not all kept, or when have's content is not what they begin with.
func (h *History) Since(have Version) (latest *routing.Epoch, steps []Step, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if have == h.base {
		return h.latest, slices.Clone(h.steps), true
	}
	for i, s := range h.steps {
		if s.Version == have {
			return h.latest, slices.Clone(h.steps[i+1:]), true
		}
	}
	return h.latest, nil, false
}

// Changed returns a channel that is closed at the next Add that is news. Take it
// before looking at Latest.
func (h *History) Changed() <-chan struct{} { return h.changed.wait() }
