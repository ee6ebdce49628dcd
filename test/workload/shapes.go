package workload

import (
	"slices"
	"time"
)

// churn is documents that live for a few questions, so that some misses are compulsory: live of them at a time, each asked
// five to eight times.
func churn(m *maker, live int) func() []Turn {
	type document struct {
		text Segment
		left int
	}
	fresh := func() document { return document{m.segment(System, 8000), 5 + m.IntN(4)} }
	pool := make([]document, live)
	for i := range pool {
		pool[i] = fresh()
	}
	return func() []Turn {
		d := &pool[m.IntN(live)]
		question := m.segment(User, m.lognormal(300, 0.7, 20, 2000))
		t := m.turn(m.lognormal(250, 0.5, 16, 800), d.text, question)
		if d.left--; d.left == 0 {
			*d = fresh()
		}
		return []Turn{t}
	}
}

// library is a fixed set of long documents, all asked alike: more than two thirds of the fleet's caches can hold.
func library(m *maker, documents int) func() []Turn {
	texts := m.systems(documents, 8000)
	return func() []Turn {
		question := m.segment(User, m.lognormal(300, 0.7, 20, 2000))
		return []Turn{m.turn(m.lognormal(120, 0.5, 16, 400), texts[m.IntN(documents)], question)}
	}
}

// chat is conversations behind four short system prompts; each turn sends all that was said.
func chat(m *maker) func() []Turn {
	lengths := [...]int{0, 32, 64, 192}
	var systems [len(lengths)]Segment
	for i, n := range lengths {
		systems[i] = m.segment(System, n)
	}
	return func() []Turn {
		var said []Segment
		if k := m.IntN(len(lengths)); lengths[k] > 0 {
			said = append(said, systems[k])
		}
		return m.converse(said, min(1+int(m.ExpFloat64()*3.2), 20), func() (int, int, time.Duration) {
			return m.lognormal(70, 1.1, 4, 1500), m.lognormal(200, 0.8, 8, 1000), m.pause(12 * time.Second)
		})
	}
}

// converse makes turns that begin with said and carry all questions and answers on; next draws a question's and an answer's
// length, and the time to think before.
func (m *maker) converse(said []Segment, turns int, next func() (question, answer int, think time.Duration)) []Turn {
	out := make([]Turn, turns)
	for i := range out {
		question, answer, think := next()
		said = append(slices.Clip(said), m.segment(User, question))
		out[i] = m.turn(answer, said...)
		if i > 0 {
			out[i].Think = think
		}
		said = append(slices.Clip(said), out[i].Answer)
	}
	return out
}

func (m *maker) systems(n, tokens int) []Segment {
	out := make([]Segment, n)
	for i := range out {
		out[i] = m.segment(System, tokens)
	}
	return out
}

// tree is one system prompt, tenants behind it, and documents or a tool schema behind those: mostly single questions to a
// document, and some agents whose prompts grow step by step.
func tree(m *maker) func() []Turn {
	const tenants, documents = 12, 60
	system := m.segment(System, 608)
	var tenant, tools [tenants]Segment
	var texts [tenants][documents]Segment
	for i := range tenants {
		tenant[i], tools[i] = m.segment(System, 1504), m.segment(System, 3008)
		for k := range documents {
			texts[i][k] = m.segment(User, m.document())
		}
	}
	popular, read := newZipf(tenants, 1), newZipf(documents, 0.8)
	return func() []Turn {
		i := popular.draw(m)
		if m.Float64() < 0.92 {
			question := m.segment(User, m.lognormal(90, 0.7, 10, 600))
			return []Turn{m.turn(m.lognormal(160, 0.6, 16, 600), system, tenant[i], texts[i][read.draw(m)], question)}
		}
		return m.converse([]Segment{system, tenant[i], tools[i]}, 4+m.IntN(9), func() (int, int, time.Duration) {
			think := 300*time.Millisecond + m.pause(2*time.Second)
			return m.lognormal(450, 0.9, 30, 4000), m.lognormal(90, 0.7, 8, 500), think
		})
	}
}

// document draws the length of a document in whole blocks, for a question follows it in the same message.
func (m *maker) document() int { return m.lognormal(3500, 0.5, 800, 9000) / 16 * 16 }

// favourite sends 30 % of the requests to one long prefix, the others by Zipf to this many.
func favourite(m *maker, prefixes int) func() []Turn {
	hot := m.segment(System, 8000)
	others := m.systems(prefixes, 4000)
	popular := newZipf(len(others), 0.9)
	return func() []Turn {
		text := hot
		if m.Float64() >= 0.3 {
			text = others[popular.draw(m)]
		}
		question := m.segment(User, m.lognormal(200, 0.7, 20, 2000))
		return []Turn{m.turn(m.lognormal(120, 0.5, 16, 400), text, question)}
	}
}
