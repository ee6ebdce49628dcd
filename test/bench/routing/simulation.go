package main

import (
	"math/rand/v2"
	"time"

	"github.com/warmring/warmring/test/workload"
)

// askEvery is of how many requests one is put to all routers.
const askEvery = 5

// clientGap is how long after the one before a client of a closed loop begins.
const clientGap = 50 * time.Millisecond

// front routes.
type front interface {
	fleet(up []int)
	pick(q *call) (server int, overflow bool)
	first(q *call)
	done(q *call)
	agree(t *workload.Turn) (agreed, pairs int)
	home(t *workload.Turn) (key uint64, id string)
}

// simulation is one run of a script.
type simulation struct {
	clock   *clock
	script  *workload.Script
	servers []*server
	up      []int
	front   front
	routers int
	draw    *rand.Rand
	next    int // session, in a closed loop
	sent    int // requests
	spare   [][]uint32
	tally   tally
}

func newSimulation(s *workload.Script, k cost, routers int, seed uint64) *simulation {
	m := &simulation{clock: &clock{}, script: s, routers: routers, draw: rand.New(rand.NewPCG(seed, 1))}
	most := s.Servers
	for _, c := range s.Changes {
		for _, n := range c.Up {
			most = max(most, n+1)
		}
	}
	for n := range most {
		sv := &server{cost: &k, clock: m.clock, block: s.Block, cache: newCache(k.kv/s.Block, s.Blocks), first: m.first, done: m.done}
		for _, f := range s.Stalls {
			if f.Server == n {
				sv.stalls = append(sv.stalls, f)
			}
		}
		m.servers = append(m.servers, sv)
		if n < s.Servers {
			m.up = append(m.up, n)
		}
	}
	m.tally.counts = make([]int, most)
	return m
}

// run plays the script in front of f.
func (m *simulation) run(f front) {
	m.front = f
	f.fleet(m.up)
	for _, c := range m.script.Changes {
		m.clock.after(c.At, func() { m.change(c.Up) })
	}
	for i := range m.script.Clients {
		m.clock.after(time.Duration(i)*clientGap, m.begin)
	}
	if m.script.Clients == 0 {
		for i := range m.script.Sessions {
			s := &m.script.Sessions[i]
			m.clock.after(s.Start, func() { m.ask(s, 0) })
		}
	}
	m.clock.run(m.script.End)
}

// begin takes the next session of a closed loop.
func (m *simulation) begin() {
	if m.next < len(m.script.Sessions) {
		m.next++
		m.ask(&m.script.Sessions[m.next-1], 0)
	}
}

// ask sends a session's turn.
func (m *simulation) ask(s *workload.Session, number int) {
	q := &call{session: s, number: number, turn: &s.Turns[number], arrived: m.clock.now, router: m.draw.IntN(m.routers)}
	var blocks []uint32
	if n := len(m.spare); n > 0 {
		blocks, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	q.blocks = m.script.AppendBlocks(blocks[:0], q.turn)
	m.sent++
	if m.counts(q) {
		m.tally.arrived++
		if m.sent%askEvery == 0 {
			agreed, pairs := m.front.agree(q.turn)
			m.tally.agreed += agreed
			m.tally.pairs += pairs
		}
	}
	q.server, q.over = m.front.pick(q)
	m.servers[q.server].send(q)
}

// counts says whether a request is part of the figures.
func (m *simulation) counts(q *call) bool { return q.arrived >= m.script.Warm }

func (m *simulation) first(q *call) {
	m.front.first(q)
	took := m.clock.now - q.arrived + m.servers[q.server].cost.fixed/2
	m.tally.all = append(m.tally.all, answer{q.arrived, took, q.server})
	if m.counts(q) {
		m.tally.first(q, took)
	}
}

func (m *simulation) done(q *call) {
	m.front.done(q)
	m.spare = append(m.spare, q.blocks)
	if m.clock.now >= m.script.Warm {
		m.tally.finished++
	}
	switch next := q.number + 1; {
	case next < len(q.session.Turns):
		s := q.session
		m.clock.after(s.Turns[next].Think, func() { m.ask(s, next) })
	case m.script.Clients > 0:
		m.begin()
	}
}

// change brings a new fleet, and measures how many keys get another home.
func (m *simulation) change(up []int) {
	sample := m.sample()
	before := m.homes(sample)
	m.up = up
	m.front.fleet(up)
	moved, after := 0, m.homes(sample)
	for key, home := range before {
		if after[key] != home {
			moved++
		}
	}
	if len(before) > 0 {
		m.tally.moved = append(m.tally.moved, float64(moved)/float64(len(before)))
	}
}

// sampled is how many prompts are asked for their homes.
const sampled = 3000

func (m *simulation) sample() []*workload.Turn {
	var out []*workload.Turn
	for i := 0; i < len(m.script.Sessions); i += 1 + len(m.script.Sessions)/sampled {
		turns := m.script.Sessions[i].Turns
		out = append(out, &turns[len(turns)-1])
	}
	return out
}

func (m *simulation) homes(sample []*workload.Turn) map[uint64]string {
	out := map[uint64]string{}
	for _, t := range sample {
		if key, home := m.front.home(t); home != "" {
			out[key] = home
		}
	}
	return out
}
