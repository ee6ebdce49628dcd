package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/routing"
)

// epochs takes the epochs that come from this router's log and from its peers, in any order, and puts the newest in use.
type epochs struct {
	history *peer.History
	use     func(*routing.Epoch) // puts it in use: swaps pointers, waits for nothing
	news    chan<- struct{}      // signalled with each
	first   chan struct{}        // closed with the first epoch

	now func() time.Time

	mu   sync.Mutex        // one epoch after the other; guards past
	past []admin.EpochInfo // oldest first, at most pastEpochs
}

// pastEpochs is how many epochs are remembered for people.
const pastEpochs = 64

func newEpochs(use func(*routing.Epoch), news chan<- struct{}, now func() time.Time) *epochs {
	return &epochs{history: peer.NewHistory(routing.NewEpoch(0, 0)), use: use, news: news, first: make(chan struct{}), now: now}
}

// offer takes e if it is newer than what is there, or has another content under the same number. The latter is for a
// caller who knows better than whoever gave us ours. The steps are those that made e, if they are known.
func (s *epochs) offer(e *routing.Epoch, steps ...peer.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.history.Latest()
	if !s.history.News(e) {
		return
	}
	s.use(e) // before anybody hears of it: whoever waited for an epoch is answered by it from then on
	s.history.Add(e, steps...)
	signal(s.news)
	if len(s.past) == 0 {
		close(s.first)
	}
	info := admin.EpochInfo{ID: e.ID(), Digest: fmt.Sprintf("%016x", e.Digest()), At: s.now(), Changes: admin.Summary(was, e)}
	if len(steps) > 0 {
		info.By = steps[len(steps)-1].By
	}
	s.remember(info, e)
}

// remember adds an epoch to those of the past. Of hot tables in a row the last is enough: there may be one every 5 s.
func (s *epochs) remember(info admin.EpochInfo, e *routing.Epoch) {
	if hot := e.Hot(); hot != nil && info.By == byHotTable {
		info.Changes = append(info.Changes, admin.EpochChange{Kind: "hot runs", Count: len(hot.Runs), IDs: []string{}})
		if n := len(s.past); n > 0 && s.past[n-1].By == byHotTable {
			s.past = s.past[:n-1]
		}
	}
	if len(s.past) == pastEpochs {
		s.past = slices.Delete(s.past, 0, 1)
	}
	s.past = append(s.past, info)
}

// newestFirst are the epochs that this router has had.
func (s *epochs) newestFirst() []admin.EpochInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.past)
	slices.Reverse(out)
	return out
}

// newest is the epoch in use, 0.0 before the first.
func (s *epochs) newest() *routing.Epoch { return s.history.Latest() }

// has reports whether there is an epoch at all.
func (s *epochs) has() bool {
	select {
	case <-s.first:
		return true
	default:
		return false
	}
}
