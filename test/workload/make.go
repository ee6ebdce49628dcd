package workload

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maker draws a script.
type maker struct {
	*rand.Rand
	script *Script
	salt   uint64
	o      Options
	now    time.Duration // start of the session that is made
}

func newMaker(name string, o Options) *maker {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	salt := mix(o.Seed*golden + h.Sum64())
	return &maker{
		Rand: rand.New(rand.NewPCG(o.Seed, h.Sum64())), salt: salt, o: o,
		script: &Script{Name: name, Servers: 7, Block: 16, Blocks: 1},
	}
}

// segment is fresh text.
func (m *maker) segment(role Role, tokens int) Segment {
	first := m.script.Blocks
	m.script.Blocks += uint32(tokens/m.script.Block) + 2
	return Segment{Role: role, Tokens: tokens, Seed: mix(m.salt ^ uint64(first)*golden), first: first}
}

// upTo is the beginning of a segment.
func (g Segment) upTo(tokens int) Segment {
	g.Tokens = tokens
	return g
}

// turn asks a prompt for an answer of so many tokens.
func (m *maker) turn(answer int, prompt ...Segment) Turn {
	t := Turn{Prompt: prompt, Answer: m.segment(Assistant, answer)}
	for i := range prompt {
		t.Tokens += prompt[i].Tokens
	}
	return t
}

// lognormal draws a length with this mean.
func (m *maker) lognormal(mean, sigma float64, least, most int) int {
	x := mean * math.Exp(sigma*m.NormFloat64()-sigma*sigma/2)
	return min(max(least, int(x)), most)
}

// pause draws an exponentially distributed time.
func (m *maker) pause(mean time.Duration) time.Duration {
	return time.Duration(m.ExpFloat64() * float64(mean))
}

// open makes sessions that begin at random, rate of them a second, for as long as the script lasts.
func (m *maker) open(rate float64, session func() []Turn) {
	gap := time.Duration(float64(time.Second) / (rate * m.o.Rate))
	for m.now = m.pause(gap); m.now < m.script.End; m.now += m.pause(gap) {
		m.script.Sessions = append(m.script.Sessions, Session{m.now, session()})
	}
}

// closed makes sessions for clients that are never idle: enough for rate of them a second.
func (m *maker) closed(clients int, rate float64, session func() []Turn) {
	m.script.Clients = max(1, int(float64(clients)*m.o.Rate))
	for range int(rate * m.o.Rate * m.script.End.Seconds()) {
		m.script.Sessions = append(m.script.Sessions, Session{0, session()})
	}
}

func (m *maker) lasts(warm, end float64) {
	m.script.Warm, m.script.End = m.seconds(warm), m.seconds(end)
}

// seconds is a time of the script, which Options.Length stretches.
func (m *maker) seconds(s float64) time.Duration {
	return time.Duration(s * m.o.Length * float64(time.Second))
}

// zipf draws 0 to n-1, k in proportion to 1/(k+1)^s.
type zipf []float64 // cumulated

func newZipf(n int, s float64) zipf {
	z := make(zipf, n)
	sum := 0.0
	for k := range z {
		sum += math.Pow(float64(k+1), -s)
		z[k] = sum
	}
	return z
}

func (z zipf) draw(m *maker) int {
	k, _ := slices.BinarySearch(z, m.Float64()*z[len(z)-1])
	return min(k, len(z)-1)
}
