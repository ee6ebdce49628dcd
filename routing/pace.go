package routing

import (
	"math"
	"time"
)

// Constants of what is learnt from answers.
const (
	// lineMemory and paceMemory weigh the newest sample in an endpoint's line and in a model server's pace: about 500
	// and 30 samples count.
	lineMemory, paceMemory = 1.0 / 500, 1.0 / 30
	// lineNeeds is how many samples a line needs, paceDoubt how many speak for a model server being like the others.
	lineNeeds, paceDoubt = 8, 8
	// noise is the ratio up to which a pace is taken for 1.
	noise = 1.28
	// lateFrom is how many times longer than expected a first token may take.
	lateFrom = 3
	// outlier bounds what one sample can say.
	outlier = 20
	// tokenMemory weighs the newest request in the mean length of a token.
	tokenMemory = 1.0 / 200
)

// lesson is what an endpoint's answers taught this replica. No constant depends on a model: first tokens are fitted by
// one line, seconds = a + b*work, and a token's length is the mean of what the answers' usage says.
type lesson struct {
	n, x, y, xx, xy float64 // decayed sums
	bytes, tokens   float64 // means of a request's prompt
	whole           whole
}

// line is a (s) and b (s per token equivalent); ok: there are samples enough.
func (s *lesson) line() (a, b float64, ok bool) {
	if s.n < lineNeeds*lineMemory {
		return 0, 0, false
	}
	mx, my := s.x/s.n, s.y/s.n
	spread := s.xx/s.n - mx*mx
	if spread <= 0 {
		return my, 0, true
	}
	b = min(max(0, (s.xy/s.n-mx*my)/spread), my/max(1, mx))
	return my - b*mx, b, true
}

// expect is how long a first token should take behind that much work, 0 when there is no telling.
func (s *lesson) expect(work float64) float64 {
	a, b, _ := s.line()
	return a + b*work
}

// expectUnseen is expect for a first token that nobody sees.
func (s *lesson) expectUnseen(work float64) float64 {
	if a, b, ok := s.line(); ok {
		return a + b*work
	}
	return s.whole.expect(work)
}

// first learns from a first token.
func (s *lesson) first(l *Lease, now time.Duration) {
	took := (now - l.sent).Seconds()
	if took < 0 {
		return
	}
	if want := s.expect(l.ahead); want > 0 {
		p := &l.load.pace
		p.got += (min(took, outlier*want) - p.got) * paceMemory
		p.want += (want - p.want) * paceMemory
	}
	s.n += (1 - s.n) * lineMemory
	s.x += (l.ahead - s.x) * lineMemory
	s.y += (took - s.y) * lineMemory
	s.xx += (l.ahead*l.ahead - s.xx) * lineMemory
	s.xy += (l.ahead*took - s.xy) * lineMemory
}

// count converts bytes of a prompt into tokens.
func (s *lesson) count(size int) int {
	per := float64(bytesPerToken)
	if s.tokens > 0 {
		per = s.bytes / s.tokens
	}
	return int(min(float64(size)/per, maxPromptTokens))
}

// learn takes in what an answer says of its prompt's length. Absurd figures of one answer do not make all prompts long: they
// would be taken to fill the caches, and what was placed there would be forgotten.
func (s *lesson) learn(size, tokens int) {
	want := float64(max(1, s.count(size)))
	said := min(max(float64(tokens), want/outlier), want*outlier)
	if s.tokens == 0 {
		s.bytes, s.tokens = float64(size), said
		return
	}
	s.bytes += (float64(size) - s.bytes) * tokenMemory
	s.tokens += (said - s.tokens) * tokenMemory
}

// pace is how long a model server's first tokens took and should have taken: decayed means.
type pace struct{ got, want float64 }

// doubt is the seconds that speak for a model server being like the others; below 0 when there is no line to compare with.
func (s *lesson) doubt() float64 {
	if s.n < lineNeeds*lineMemory {
		return -1
	}
	return paceDoubt * paceMemory * s.y / s.n
}

// ratio is above 1 for a model server that is slower than the line.
func (p *pace) ratio(doubt float64) float64 {
	if doubt < 0 {
		return 1
	}
	if r := (p.got + doubt) / (p.want + doubt); r >= noise || r <= 1/noise {
		return r
	}
	return 1 // also where nothing is known: 0/0
}

// late is how many times longer than expected the oldest request without a first token has waited, 1 up to lateFrom. Work that
// came, or was heard of, after the request counts too: a server takes up both in one step.
func (l *load) late(now time.Duration) float64 {
	r := l.waiting.head
	if r == nil || r.expected <= 0 {
		return 1
	}
	expected := max(1e-3, r.expected, r.lesson.expect(float64(l.pending())))
	if x := (now - r.sent).Seconds() / expected; x > lateFrom {
		return x
	}
	return 1
}

// drain takes the work of unary requests off when they should have got to their first token, which nobody sees.
func (l *load) drain(now time.Duration) {
	for r := l.unary.head; r != nil && r.expected > 0 && (now-r.sent).Seconds() >= r.expected; r = l.unary.head {
		r.firstToken()
	}
}

// queue is leases in the order in which they were made.
type queue struct{ head, tail *Lease }

func (q *queue) add(l *Lease) {
	l.queue, l.prev, l.next = q, q.tail, nil
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
}

func (q *queue) remove(l *Lease) {
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.queue, l.prev, l.next = nil, nil, nil
}

// rate is a decayed count of the events in about a window.
type rate struct {
	window time.Duration
	count  float64
	at     time.Duration
}

func (r *rate) add(now time.Duration, events float64) {
	r.count = r.decayed(now) + events
	r.at = now
}

func (r *rate) perSecond(now time.Duration) float64 { return r.decayed(now) / r.window.Seconds() }

func (r *rate) decayed(now time.Duration) float64 {
	return r.count * math.Exp(-float64(now-r.at)/float64(r.window))
}
