package routing

import "time"

// Decision says why a model server was chosen.
type Decision string

// The decisions.
const (
	DecisionHome     Decision = "home"     // the map's first choice
	DecisionHot      Decision = "hot"      // one of those that share a hot prefix
	DecisionPlaced   Decision = "placed"   // it was sent the prompt before
	DecisionOverflow Decision = "overflow" // the home was full, slow or away
	DecisionRetry    Decision = "retry"    // another one failed before
	DecisionRandom   Decision = "random"
	DecisionLeast    Decision = "least"
)

// Lease is a request's reservation on a model server. The exported fields do not
// change; a fleet change does not touch them. Release must be called once the
// request has ended. The methods are safe for concurrent use.
type Lease struct {
	Backend  Backend
	Epoch    *Epoch // the epoch that was used
	Home     string // id of the map's first choice in it
	Decision Decision

	picker    *Picker
	load      *load
	number    uint64 // load.picks when it was made
	successes uint64 // load.successes when it was made

	// The picker's mutex guards what follows.
	prefill  int64 // what it added to load.prefill; 0 after the first token
	released bool
	size     int // of the prompt in bytes

	// With `auto`:
	lesson     *lesson // of the endpoint
	pin        uint64
	writes     int           // tokens of the prompt that the model server is expected to process
	unary      bool          // nobody sees its first token
	sent       time.Duration // when it was made
	ahead      float64       // work pending there, this request's included
	expected   float64       // seconds to the first token, 0 when there is no telling
	next, prev *Lease        // in queue
	queue      *queue        // load.waiting, load.unary, or nil
}

// FirstToken says that the prompt has been processed, and when. Only the first call counts.
func (l *Lease) FirstToken(now time.Time) {
	p := l.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.queue == &l.load.waiting {
		l.lesson.first(l, p.clock(now))
	}
	l.firstToken()
}

func (l *Lease) firstToken() {
	if l.queue != nil {
		l.queue.remove(l)
	}
	if l.prefill != 0 {
		l.load.prefill -= l.prefill
		l.prefill = 0
		l.picker.touch(l.load)
	}
}

// Release gives the reservation back. Only the first call counts.
func (l *Lease) Release() {
	p := l.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	l.firstToken()
	l.endProbe()
	l.load.inflight--
	p.touch(l.load)
	p.forget(l.load)
}

// endProbe lets the next request probe, if this one did.
func (l *Lease) endProbe() {
	if l.load.probe == l.number {
		l.load.probe = 0
	}
}
