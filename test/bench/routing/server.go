package main

import (
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/workload"
)

// cost is how long a model server computes.
type cost struct {
	step       time.Duration // of any step
	perRequest float64       // seconds for each request that decodes
	perKV      float64       // seconds for each token that such a request has
	perToken   float64       // seconds for each token of a prompt, without attention
	attention  float64       // tokens before a token at which attention costs as much as all else
	fixed      time.Duration // of a request outside the engine: half before it, half behind it
	batch      int           // tokens of a step
	requests   int           // of a step
	kv         int           // tokens that fit in the cache
}

// large is a 70B model with tensor parallelism over eight H100s.
func large() cost {
	return cost{
		step: 11 * time.Millisecond, perRequest: 30e-6, perKV: 17.5e-9, perToken: 30e-6, attention: 36000,
		fixed: 20 * time.Millisecond, batch: 8192, requests: 256, kv: 1_150_000,
	}
}

// prefill is the seconds for the tokens from a to b of a prompt.
func (c *cost) prefill(a, b int) float64 {
	return float64(b-a) * c.perToken * (1 + float64(a+b)/2/c.attention)
}

// call is one request.
type call struct {
	session *workload.Session
	turn    *workload.Turn
	number  int // of the turn in its session
	arrived time.Duration
	router  int
	server  int
	over    bool // an overflow
	lease   routing.Lease

	blocks []uint32 // of prompt and answer

	// In the server:
	guess    int // tokens to compute that were expected when it came; 0 once it runs
	hit      int // tokens found in the cache
	computed int // tokens of the prompt
	made     int // tokens of the answer
	share    int // tokens in the present step
	held     []uint32
	reserved int
}

// server computes in steps, as vLLM's V1 scheduler plans them: running requests first, then waiting ones in order of arrival
// while there is room.
type server struct {
	cost    *cost
	clock   *clock
	block   int
	cache   *cache
	stalls  []workload.Stall
	coming  []*call // sent, not yet here
	waiting []*call
	running []*call
	pending int // tokens of prompts to compute, as far as is known
	busy    bool
	until   time.Duration // end of the step

	first, done func(*call)
}

// send has a request arrive.
func (s *server) send(c *call) {
	s.coming = append(s.coming, c)
	s.clock.after(s.cost.fixed/2, func() {
		s.coming = s.coming[1:] // all are on their way for the same time
		c.guess = c.turn.Tokens - s.cache.match(s.prompt(c))*s.block
		s.pending += c.guess
		s.waiting = append(s.waiting, c)
		s.work()
	})
}

// prompt is the blocks of a prompt that can be used: its last token is computed in any case, for the answer.
func (s *server) prompt(c *call) []uint32 {
	return c.blocks[:min(len(c.blocks), (c.turn.Tokens-1)/s.block)]
}

// work begins a step if there is something to do.
func (s *server) work() {
	if s.busy {
		return
	}
	seconds, left := s.plan()
	seconds += s.admit(left)
	if len(s.running) == 0 {
		return
	}
	took := s.cost.step + time.Duration(seconds*float64(time.Second))
	for _, f := range s.stalls {
		if s.clock.now >= f.From && s.clock.now < f.To {
			took += f.To - s.clock.now
		}
	}
	s.busy, s.until = true, s.clock.now+took
	s.clock.after(took, func() {
		s.busy = false
		s.end()
		s.work()
	})
}

// plan gives running requests their share of a step.
func (s *server) plan() (seconds float64, left int) {
	left = s.cost.batch
	for _, c := range s.running {
		if c.computed == c.turn.Tokens {
			c.share = 1
			left--
			seconds += s.cost.perRequest + s.cost.perKV*float64(c.turn.Tokens+c.made)
			continue
		}
		seconds += s.compute(c, left)
		left -= c.share
	}
	return seconds, left
}

func (s *server) admit(left int) (seconds float64) {
	for len(s.waiting) > 0 && left > 0 && len(s.running) < s.cost.requests {
		c := s.waiting[0]
		held := s.prompt(c)
		held = held[:s.cache.match(held)]
		need := (c.turn.Tokens+c.turn.Answer.Tokens+s.block-1)/s.block - len(held)
		if !s.cache.reserve(held, need) {
			break
		}
		s.waiting = s.waiting[1:]
		c.held, c.reserved = append(c.held, held...), need
		c.hit = len(held) * s.block
		c.computed = c.hit
		s.pending += c.turn.Tokens - c.hit - c.guess
		c.guess = 0
		seconds += s.compute(c, left)
		left -= c.share
		s.running = append(s.running, c)
	}
	return seconds
}

// compute gives c its share of the tokens that are left. Blocks are shareable as soon as they are planned, as in vLLM, so
// that an equal prompt of the same step finds them.
func (s *server) compute(c *call, left int) (seconds float64) {
	c.share = min(c.turn.Tokens-c.computed, max(left, 0))
	s.publish(c, c.computed, c.computed+c.share)
	return s.cost.prefill(c.computed, c.computed+c.share)
}

func (s *server) publish(c *call, from, to int) {
	for b := from / s.block; b < min(to/s.block, len(c.blocks)); b++ {
		if s.cache.share(c.blocks[b]) {
			c.held = append(c.held, c.blocks[b])
			c.reserved--
		}
	}
}

// end applies a step.
func (s *server) end() {
	planned := s.running
	s.running = s.running[:0]
	for _, c := range planned {
		if c.computed < c.turn.Tokens {
			c.computed += c.share
			s.pending -= c.share
			if c.computed < c.turn.Tokens {
				s.running = append(s.running, c)
				continue
			}
			s.first(c)
		}
		if c.made++; c.made < c.turn.Answer.Tokens {
			s.running = append(s.running, c)
			continue
		}
		s.publish(c, c.turn.Tokens, c.turn.Tokens+c.turn.Answer.Tokens)
		s.cache.release(c.held, c.reserved)
		s.done(c)
	}
	clear(planned[len(s.running):])
}
