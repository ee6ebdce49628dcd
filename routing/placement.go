package routing

import (
	"maps"
	"math"
	"time"

	"github.com/warmring/warmring/routing/hot"
	"github.com/warmring/warmring/routing/prefix"
)

const (
	countersPerBackend, leastCounters = 512, 4096
	// unknownCapacity is taken for a KV capacity that nobody has told, in tokens: too high costs less than too low.
	unknownCapacity = 2_000_000
	// kept is the share of its capacity that a model server may write until what it held counts as evicted.
	kept = 0.9
	// untold bounds what waits to be told; beyond it the oldest is left out, which the others' clocks survive.
	untold = 1 << 13
	// maxOrigins bounds the replicas of which clocks are remembered.
	maxOrigins = 256
)

// Placement says that its origin sent a prompt to a model server.
type Placement struct {
	Pin         uint64 // 0: only the clock is told
	ID          string // of the model server
	Incarnation uint64
	Depth       int   // tokens that it holds of the prompt and its answer
	Written     int64 // tokens that the origin ever had it write to its cache, this placement included
}

// clock counts what a model server wrote to its cache, in tokens.
type clock struct {
	own      int64 // had by this replica
	heard    int64 // had by the others
	told     int64 // own, when the others were told last
	capacity int   // of the cache; 0: unknown
	life     Life  // as it was told last
}

func (c *clock) now() int64 { return c.own + c.heard }

// size is how many tokens the cache is taken to hold.
func (c *clock) size() int {
	if c.capacity == 0 {
		return unknownCapacity
	}
	return c.capacity
}

// held reports whether what was written at that time is still there.
func (c *clock) held(at int64) bool {
	return float64(c.now()-at) < kept*float64(c.size())
}

// filled is how much of the cache was ever written to, from 0 to 1.
func (c *clock) filled() float64 { return min(1, float64(c.now())/float64(c.size())) }

// same reports whether a repeat is no news: it is within an eighth of the depth that was told and a twentieth of the cache.
func (c *clock) same(was, is place) bool {
	gap := is.depth - was.told
	return max(gap, -gap) <= was.told/8 && is.clock-was.clock < int64(c.size())/20
}

// origin is another replica: the latest clock that it told of each model server.
type origin struct {
	clocks map[name]int64
	heard  time.Duration
}

// adoptPlaces brings what is sized by the fleet to its size.
func (p *Picker) adoptPlaces(e *Epoch) {
	p.directory.limit = max(leastPins, pinsPerBackend*len(e.backends))
	p.sketch.Resize(max(leastCounters, countersPerBackend*len(e.backends)))
	maps.DeleteFunc(p.lessons, func(endpoint string, _ *lesson) bool { return !e.Has(endpoint) })
	for _, o := range p.origins {
		maps.DeleteFunc(o.clocks, func(n name, _ int64) bool { return p.named[n] == nil })
	}
	if e.levels != nil && p.tabled == 0 && !p.start.IsZero() {
		p.tabled = max(1, p.latest)
	}
}

func (p *Picker) lesson(endpoint string) *lesson {
	s, ok := p.lessons[endpoint]
	if !ok {
		s = &lesson{}
		p.lessons[endpoint] = s
	}
	return s
}

// place notes where a request goes.
func (p *Picker) place(l *Lease, c *choice, i int) {
	ld, s := l.load, c.lesson
	prompt := c.warm.prompt
	l.lesson, l.pin, l.sent = s, c.place.pin, c.now
	l.writes = prompt - min(c.have(i), prompt)
	l.ahead = float64(ld.pending() + l.prefill)
	if l.unary = c.place.unary; l.unary {
		l.expected = s.expectUnseen(l.ahead)
		ld.unary.add(l)
	} else {
		l.expected = s.expect(l.ahead)
		ld.waiting.add(l)
	}
	p.rate.add(c.now, 1)
	p.sample(c.now, c.place.size)
	p.write(ld, l.pin, prompt, l.writes)
	if level := c.place.level; level.few(c.place.group) && level.First != l.pin {
		p.tell(ld, level.First, c.warm.hot)
	}
}

// write notes that a model server writes tokens to its cache and then holds depth tokens of the pin.
func (p *Picker) write(ld *load, pin uint64, depth, tokens int) {
	ld.clock.own += int64(tokens)
	p.tell(ld, pin, depth)
	p.touch(ld)
}

// tell notes what a model server holds now of a pin, for the other replicas too where it is news to them.
func (p *Picker) tell(ld *load, pin uint64, depth int) {
	if news := p.note(ld, pin, depth, true); news && p.others > 0 {
		if len(p.placed) >= untold {
			p.placed = p.placed[:copy(p.placed, p.placed[untold/2:])]
		}
		p.placed = append(p.placed, Placement{pin, ld.backend.ID, ld.backend.Incarnation, depth, ld.clock.own})
		ld.clock.told = ld.clock.own
	}
}

// note records that a model server was sent depth tokens of the pin. Of an own placement it reports whether that is news to the
// others: what they were not told is not compared with, or else a prompt that grows in small steps never would be. What is
// heard is older than what is known, and does not make a depth less.
func (p *Picker) note(ld *load, pin uint64, depth int, own bool) (news bool) {
	at := place{load: ld.number, since: p.fleet, depth: int32(depth), told: int32(depth), clock: ld.clock.now()}
	news = true
	for _, was := range p.directory.get(pin) {
		if was.load != at.load || !ld.clock.held(was.clock) {
			continue
		}
		at.since = was.since
		switch {
		case !own:
			at.depth = max(at.depth, was.depth)
		case p.others > 0 && ld.clock.same(was, at):
			at.told, at.clock, news = was.told, was.clock, false
		}
	}
	p.directory.put(pin, at)
	return news
}

// TakePlacements appends what is to be told to the other replicas since it was called last, in order.
func (p *Picker) TakePlacements(dst []Placement) []Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.placed...)
	p.placed = p.placed[:0]
	if p.others == 0 {
		return dst
	}
	for _, l := range p.named {
		if l.clock.own != l.clock.told {
			l.clock.told = l.clock.own
			dst = append(dst, Placement{ID: l.backend.ID, Incarnation: l.backend.Incarnation, Written: l.clock.own})
		}
	}
	return dst
}

// HearPlacements takes in what another replica placed, in its order; hearing something twice does no harm. Model servers
// that the epoch does not have are passed over.
func (p *Picker) HearPlacements(from string, ps []Placement, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origin(from, p.clock(now))
	if o == nil {
		return
	}
	for i := range ps {
		n := name{ps[i].ID, ps[i].Incarnation}
		ld := p.named[n]
		if ld == nil {
			continue
		}
		if behind := ps[i].Written - o.clocks[n]; behind > 0 {
			ld.clock.heard += behind
			o.clocks[n] = ps[i].Written
		}
		if ps[i].Pin != 0 {
			p.note(ld, ps[i].Pin, min(max(0, ps[i].Depth), maxPromptTokens), false)
		}
	}
}

// origin is nil where there are too many.
func (p *Picker) origin(name string, now time.Duration) *origin {
	o, ok := p.origins[name]
	if !ok {
		if len(p.origins) >= maxOrigins {
			maps.DeleteFunc(p.origins, func(_ string, o *origin) bool { return now-o.heard > 10*time.Minute })
		}
		if len(p.origins) >= maxOrigins {
			return nil
		}
		o = newOrigin()
		p.origins[name] = o
	}
	o.heard = now
	return o
}

func newOrigin() *origin { return &origin{clocks: map[name]int64{}} }

// SetReplicas says how many other replicas there are, whether the placements of all of them arrive, and how old what is
// known of them is at most.
func (p *Picker) SetReplicas(others int, synced bool, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others, p.synced, p.age = others, synced || others == 0, age
}

// SetCapacity says how many tokens the KV cache of a model server holds; 0: unknown.
func (p *Picker) SetCapacity(id string, tokens int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tokens <= 0 {
		delete(p.capacity, id)
	} else if _, known := p.capacity[id]; known || len(p.capacity) < 2*len(p.named)+64 {
		p.capacity[id] = tokens
	}
	for n, l := range p.named {
		if n.id == id {
			l.clock.capacity = tokens
		}
	}
}

// Life tells one start of a model server from the next.
type Life struct {
	Started float64 // when its process was started, in Unix seconds by its own clock; 0: unknown
	Prompts float64 // tokens of all prompts since then; 0: none, or unknown
}

// after reports whether l belongs to a later start than was. Without the time of the start only a count that fell shows it,
// so that one is missed that has counted more by then.
func (l Life) after(was Life) bool {
	if l.Started > 0 && was.Started > 0 {
		return l.Started > was.Started
	}
	return l.Prompts > 0 && l.Prompts < was.Prompts
}

// SetLife says what a model server tells of its present life. If that is another one than before, its cache was emptied:
// what was placed there counts no more, and SetLife reports true.
func (p *Picker) SetLife(id string, incarnation uint64, life Life) (restarted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.named[name{id, incarnation}]
	if l == nil || life == (Life{}) {
		return false
	}
	restarted = life.after(l.clock.life)
	if restarted {
		p.directory.void(l)
	}
	l.clock.life = life
	return restarted
}

// Learn says what the usage of an answer that ended just now told, in tokens; 0: nothing.
func (l *Lease) Learn(prompt, completion int, now time.Time) {
	p := l.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.lesson == nil || prompt <= 0 || prompt > maxPromptTokens || completion < 0 || completion > maxPromptTokens {
		return
	}
	l.lesson.learn(l.size, prompt)
	if took := p.clock(now) - l.sent; l.unary && completion > 0 && took > 0 {
		l.lesson.whole.add(l.ahead, float64(completion), took.Seconds())
	}
	if completion > 0 && !l.load.gone {
		p.write(l.load, l.pin, prompt+completion, completion)
		l.writes += completion
	}
}

// Count puts a request that was placed into the sketch from which hot tables are made. The memory of the Request that was
// mapped must still be as it was.
func (p *Picker) Count(pl *Place, l *Lease) {
	if l.lesson != nil && !pl.uncounted {
		p.sketch.Add(pl.root, pl.chain, float64(l.writes))
	}
}

// countedPerBackend is how many requests a second and backend are counted at most. A prefix that needs a second server has
// then more than a hundred visits in what the sketch remembers, and more would teach nothing; but counting a long prompt
// costs more than placing it, so that one of n times countedSize is taken for n.
const (
	countedPerBackend = 32
	countedSize       = 1 << 16 // bytes
)

// sample sets the share of the requests that are counted, of which the latest has a prompt of so many bytes.
func (p *Picker) sample(now time.Duration, size int) {
	p.burst.add(now, max(1, float64(min(size, prefix.MaxText))/countedSize))
	share := countedPerBackend * float64(max(2, len(p.named))) / p.burst.perSecond(now)
	if share >= 1 {
		p.counted.Store(math.MaxUint64)
		return
	}
	p.counted.Store(uint64(share * math.MaxUint64))
}

// Counts reports whether a request is to be counted, of which all text is needed then; draw is a random number.
func (p *Picker) Counts(draw uint64) bool { return draw <= p.counted.Load() }

// Sketch counts the prefixes of this replica's requests.
func (p *Picker) Sketch() *hot.Sketch { return p.sketch }
