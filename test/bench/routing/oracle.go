package main

import "github.com/warmring/warmring/test/workload"

// oracle sees all caches and queues as they are. It takes the model server with the soonest first token, a prompt's own
// computation counted twice, for it holds up others as well. That is greedy: a bar that can be reached, not a bound.
type oracle struct {
	servers []*server
	up      []int
	turn    uint64 // settles ties
}

func (o *oracle) fleet(up []int) { o.up = up }

func (o *oracle) pick(q *call) (int, bool) {
	o.turn++
	best, low := 0, 0.0
	for k := range o.up {
		n := o.up[(k+int(o.turn%uint64(len(o.up))))%len(o.up)]
		if x := o.cost(o.servers[n], q); k == 0 || x < low {
			best, low = n, x
		}
	}
	return best, false
}

// cost in seconds.
func (o *oracle) cost(s *server, q *call) float64 {
	own := s.cost.prefill(o.have(s, q), q.turn.Tokens)
	pending := s.pending
	for _, c := range s.coming {
		pending += c.turn.Tokens - s.block*s.cache.match(s.prompt(c))
	}
	requests, tokens := len(s.running)+len(s.waiting)+len(s.coming), 0
	for _, c := range s.running {
		tokens += c.turn.Tokens + c.made
	}
	wait := float64(pending) * s.cost.perToken * 1.1 // some attention
	if s.busy {
		wait += (s.until - s.clock.now).Seconds() / 2
	}
	step := s.cost.step.Seconds() + s.cost.perKV*float64(tokens) + s.cost.perRequest*float64(requests)
	return wait + step + 2*own + 0.0002*float64(requests)
}

// have is how many tokens will be held once all that was sent there has begun.
func (o *oracle) have(s *server, q *call) int {
	prompt := s.prompt(q)
	n := s.cache.match(prompt)
	for _, list := range [][]*call{s.waiting, s.coming} {
		for _, c := range list {
			other := s.prompt(c)
			if n >= len(prompt) || n >= len(other) || other[n] != prompt[n] {
				continue
			}
			for n < min(len(prompt), len(other)) && other[n] == prompt[n] {
				n++
			}
		}
	}
	return n * s.block
}

func (o *oracle) first(*call) {}

func (o *oracle) done(*call) {}

func (o *oracle) agree(*workload.Turn) (agreed, pairs int) { return 0, 0 }

func (o *oracle) home(*workload.Turn) (uint64, string) { return 0, "" }
