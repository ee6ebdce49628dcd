package routing

import "time"

// The cost of `auto`, fitted on recorded workloads; DESIGN.md says what each constant costs when it is wrong.
const (
	// attention is the prompt length, in tokens, at which attention costs as much as all else.
	attention = 36000
	// perRequest is the cost of a request in flight, in token equivalents.
	perRequest = 100
	// stall weighs what a prefill does to the requests in flight.
	stall = 0.5
	// reload weighs what has to be processed again where it is not known what is held.
	reload = 2
	// settling is how long pins of the time before the first hot table are looked up.
	settling = 20 * time.Second
	// idle is the share of its own prefill work up to which a new home has nothing to do.
	idle = 0.1
	// copying is the share of its work that a copy of a hot level costs the request that makes it: the others use it too.
	copying = 0.1
	// evening is how many prompts less a cache was written than those that hold a hot level, so that a copy evens them out.
	evening = 4
	// moving is the most of all requests that may go to a model server that joined and does not hold their pin yet.
	moving = 0.25
)

// warm is what is known of the prompt of a decision.
type warm struct {
	prompt, hot int    // tokens
	blind       bool   // the directory is not complete: the home is trusted
	known       bool   // somebody holds the pin
	proven      bool   // it is known who holds the last hot level
	written     int64  // by that of them which wrote least to its cache, in tokens
	oldest      uint32 // Picker.fleet when the first of those who hold it was sent it
	first       int    // a first touch looks at so many of the ranking only; 0: at all
	// By grade, the tokens that a candidate holds that was not sent the pin, and its work.
	held  [holds + 1]int
	works [holds + 1]float64
	doubt float64 // of the paces
}

// recall looks the prompt up in the directory.
func (p *Picker) recall(c *choice) {
	w := &c.warm
	w.prompt = c.lesson.count(c.place.size)
	w.hot = min(c.lesson.count(c.place.hot), w.prompt)
	w.held[holds], w.works[cold], w.works[holds] = w.hot, work(0, w.prompt), work(w.hot, w.prompt)
	w.doubt = c.lesson.doubt()
	p.decisions++
	c.serial = p.decisions
	w.blind = !p.synced
	p.latest = c.now
	if w.blind {
		return
	}
	p.prove(c)
	p.find(c, c.place.pin)
	if !w.known && c.place.before != c.place.pin {
		p.find(c, c.place.before)
	}
	if p.unsettled(c) && !w.known && c.place.start != c.place.pin {
		p.find(c, c.place.start)
	}
	if !w.known {
		w.first = p.firstTouch(c)
	}
}

// unsettled reports whether pins of the time before the first table are still looked up; when they no more are, the epoch is told.
func (p *Picker) unsettled(c *choice) bool {
	e := c.place.epoch
	if e.levels == nil || p.tabled > 0 && c.now-p.tabled < settling {
		return true
	}
	if !e.settled.Load() {
		e.settled.Store(true)
	}
	return false
}

// find marks the model servers that hold a pin.
func (p *Picker) find(c *choice, pin uint64) {
	for _, at := range p.directory.get(pin) {
		l := p.directory.holder(at)
		if l == nil {
			continue
		}
		l.mark, l.placed = c.serial, int(at.depth)
		if !c.warm.known || at.since < c.warm.oldest {
			c.warm.known, c.warm.oldest = true, at.since
		}
	}
}

// prove marks the model servers that hold the last hot level: they were sent it, or, where nobody is known to since it is a level
// of its own, the one before.
func (p *Picker) prove(c *choice) {
	w := &c.warm
	for level := c.place.level; level.few(c.place.group) && !w.proven; level = level.candidates().up {
		for _, at := range p.directory.get(level.First) {
			if l := p.directory.holder(at); l != nil {
				if now := l.clock.now(); !w.proven || now < w.written {
					w.written = now
				}
				l.warm, w.proven = c.serial, true
			}
		}
	}
	if w.proven {
		w.held[shares] = min(c.lesson.count(c.place.above), w.hot)
		w.works[shares] = w.works[holds] + copying*work(w.held[shares], w.hot)
	}
}

// firstTouch is how many of the ranking a prompt that nobody holds looks at: fewer, the more the others send to one model
// server before this replica hears of it.
func (p *Picker) firstTouch(c *choice) int {
	unseen := p.rate.perSecond(c.now) * float64(p.others) / float64(len(c.loads)) * p.age.Seconds()
	switch {
	case unseen < 0.3:
		return 4
	case unseen < 1:
		return 3
	}
	return 2
}

// grade is what a candidate is taken to hold of what is hot.
type grade uint8

const (
	cold   grade = iota // nothing
	shares              // all but the last level: it is one of those who share that, but was not sent it yet
	holds               // all of it
)

// grade of candidate i. Where nobody is known to hold the last level, all who share it are taken to.
func (c *choice) grade(i int) grade {
	switch {
	case c.proven(i):
		return holds
	case c.warm.hot == 0 || !c.place.contains(i):
		return cold
	case c.warm.proven:
		return shares
	}
	return holds
}

// proven reports whether candidate i is known to hold the last hot level.
func (c *choice) proven(i int) bool { return c.warm.proven && c.loads[i].warm == c.serial }

// have is how many tokens of the prompt candidate i is expected to hold.
func (c *choice) have(i int) int {
	w := &c.warm
	have := w.held[c.grade(i)]
	if l := c.loads[i]; l.mark == c.serial && c.serial > 0 {
		have = max(have, l.placed)
	}
	if w.blind && i == c.acting {
		have = w.prompt
	}
	return min(have, w.prompt)
}

// own is the work of the prompt on candidate i. A copy of the last hot level costs nothing where it evens out the caches: or else
// all chats with one system prompt would begin where that is held, as long as nothing else goes on.
func (c *choice) own(i int) float64 {
	if c.warm.blind || c.loads[i].mark == c.serial {
		return work(c.have(i), c.warm.prompt)
	}
	g := c.grade(i)
	if g == shares && c.loads[i].clock.now()+evening*int64(c.warm.prompt) <= c.warm.written {
		g = holds
	}
	return c.warm.works[g]
}

// warmth is the cost of candidate i in token equivalents: the work that is pending there, that of this prompt, which also
// holds up the requests in flight, and those requests.
func (c *choice) warmth(i int) float64 {
	l := c.loads[i]
	if l.unary.head != nil {
		l.drain(c.now)
	}
	pending, requests := float64(l.pending()), float64(l.requests())
	own := c.own(i)
	if c.warm.blind {
		return pending + reload*own + perRequest*requests
	}
	slow := l.pace.ratio(c.warm.doubt)
	return (pending + own*(1+stall*requests) + perRequest*requests) * max(slow, l.late(c.now))
}

// floor is what a candidate costs at least, whatever the prompt: most lose by it already.
func (l *load) floor() float64 {
	if l.unary.head != nil {
		return 0 // part of what is pending may be done
	}
	return float64(l.pending()) + perRequest*float64(l.requests())
}

// auto chooses among those that may be chosen.
func (c *choice) auto() int {
	w := &c.warm
	if c.succeeds() {
		return c.acting
	}
	if w.first == 0 {
		return c.least(prefill, c.place.pin)
	}
	best, low, full := c.acting, c.warmth(c.acting), c.loads[c.acting].clock.filled()
	consider := func(i int) {
		x, filled := c.warmth(i), c.loads[i].clock.filled()
		if x < low || x == low && filled < full {
			best, low, full = i, x, filled
		}
	}
	firsts := c.ranked(w.first)
	for _, i := range firsts.list[:firsts.n] {
		consider(i)
	}
	if w.proven {
		for i := range c.loads {
			if c.proven(i) && c.status(i) <= c.worst {
				consider(i)
			}
		}
	}
	return best
}

// succeeds reports whether the home takes a pin over from those who held it before the home joined: while it has nothing to
// do, and once it holds the pin too, or else they would keep half of it. The more of the fleet is new, the fewer pins move at
// a time: a move is a prompt processed anew, and replicas do not see each other's at once.
func (c *choice) succeeds() bool {
	w, home := &c.warm, c.loads[c.acting]
	if !w.known || home.joined <= w.oldest || float64(home.pending()) > idle*work(w.hot, w.prompt) {
		return false
	}
	if home.mark == c.serial {
		return true
	}
	joined := 0
	for _, l := range c.loads {
		if l.joined > w.oldest {
			joined++
		}
	}
	return float64(c.draw>>11)/unit*float64(joined) < moving*float64(len(c.loads))
}

// few is the first of a ranking, in order.
type few struct {
	list   [4]int
	scores [4]float64
	n      int
	widest uint64 // the gap above which a candidate is not among them
}

// ranked returns the first n candidates, at most four, of the ranking that may be chosen.
func (c *choice) ranked(n int) few {
	f := few{widest: unit}
	keys := &c.place.group.keys
	consider := func(i int) {
		if keys.gap(i, c.place.pin) > f.widest || !c.allOpen && c.status(i) > c.worst {
			return
		}
		f.add(i, keys.score(i, c.place.pin), n)
		if f.n == n && n > 0 {
			f.widest = keys.widest(f.scores[n-1])
		}
	}
	if behind := c.place.level.candidates(); behind != nil && behind.members != nil {
		for _, i := range behind.members {
			consider(i)
		}
		return f
	}
	for i := range c.loads {
		consider(i)
	}
	return f
}

func (f *few) add(i int, score float64, most int) {
	at := f.n
	for at > 0 && f.scores[at-1] < score {
		at--
	}
	if at >= most {
		return
	}
	f.n = min(f.n+1, most)
	for k := f.n - 1; k > at; k-- {
		f.list[k], f.scores[k] = f.list[k-1], f.scores[k-1]
	}
	f.list[at], f.scores[at] = i, score
}
