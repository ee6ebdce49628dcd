package node

import (
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

// Whoever waited for an epoch, such as a write for the one that carries it, finds requests decided by it:
// it is in use before it is told.
func TestAnEpochIsInUseBeforeItIsTold(t *testing.T) {
	var s *epochs
	var used []uint64
	news := make(chan struct{}, 1)
	s = newEpochs(func(e *routing.Epoch) {
		used = append(used, e.Generation())
		if told := s.newest().Generation(); told >= e.Generation() || len(news) > 0 {
			t.Errorf("epoch %d is told before %d is in use", told, e.Generation())
		}
	}, news, time.Now)
	for _, generation := range []uint64{1, 2, 2, 1, 3} {
		s.offer(routing.NewEpoch(generation, 0))
		if len(news) > 0 {
			<-news
		}
	}
	if len(used) != 3 || s.newest().Generation() != 3 {
		t.Errorf("used %v, newest %d; want each once", used, s.newest().Generation())
	}
}
