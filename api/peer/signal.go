package peer

import "sync"

// signal wakes all who wait, as often as it is raised, and keeps nothing: who needs
// to know what happened looks at the state it stands for. Take the channel first and
// look then.
type signal struct {
	mu sync.Mutex    // guards ch
	ch chan struct{} // nil while nobody waits
}

// wait returns a channel that is closed when the signal is raised next.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
