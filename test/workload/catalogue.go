package workload

import (
	"errors"
	"fmt"
	"slices"
)

// ErrUnknown says that there is no workload of this name.
var ErrUnknown = errors.New("unknown workload")

// Options vary a workload. Zero values are defaults.
type Options struct {
	Seed   uint64
	Rate   float64 // factor on the rate of requests or the number of clients; 0: 1
	Length float64 // factor on how long the run is; 0: 1
	Trace  string  // file with the trace that e1 replays
}

// Kind is a workload that can be made.
type Kind struct {
	Name  string
	About string // in one line
	make  func(m *maker) error
}

// New makes the script of this name. The errors are ErrUnknown, and those of reading a trace.
func New(name string, o Options) (*Script, error) {
	if o.Rate <= 0 {
		o.Rate = 1
	}
	if o.Length <= 0 {
		o.Length = 1
	}
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	m := newMaker(name, o)
	if err := kinds[i].make(m); err != nil {
		return nil, err
	}
	return m.script, nil
}

// Kinds returns all workloads: the usual ones first, then the adversarial, cold starts, and changes of the fleet.
func Kinds() []Kind {
	return slices.Concat(usual(), adversarial(), cold(), changing())
}

func usual() []Kind {
	return []Kind{
		{"a1", "16 clients; 48 live documents of 8,000 tokens, each replaced after 5 to 8 questions", closed(150, 500, 16, 14, func(m *maker) func() []Turn { return churn(m, 48) })},
		{"a2", "49 clients; 500 fixed documents of 8,000 tokens", closed(90, 300, 49, 42, func(m *maker) func() []Turn { return library(m, 500) })},
		{"b", "chats of several turns, 16 begun a second, behind short system prompts", open(72, 240, 16, chat)},
		{"c", "a prompt tree: system, 12 tenants, documents or tools, questions and agents; 36 sessions/s", open(60, 200, 36, tree)},
		{"d", "52 requests/s, 30 % of them behind one prefix of 8,000 tokens", open(60, 200, 52, func(m *maker) func() []Turn { return favourite(m, 900) })},
		{"e1", "the conversation trace of Mooncake at twice its speed (needs its file)", (*maker).replay},
	}
}

func adversarial() []Kind {
	return []Kind{
		{"unique", "25 prompts/s that share nothing", open(60, 200, 25, unique)},
		{"single", "one prompt, 250 times a second", open(30, 100, 250, single)},
		{"growing", "14 chains of prompts that grow by 64 tokens each, 40/s", open(60, 200, 40, func(m *maker) func() []Turn { return grow(m, 14, 64) })},
		{"growing-200", "200 such chains, 60/s", open(60, 200, 60, func(m *maker) func() []Turn { return grow(m, 200, 64) })},
		{"creeping", "14 chains of prompts that grow by a token each, 40/s", open(60, 200, 40, func(m *maker) func() []Turn { return grow(m, 14, 1) })},
		{"tenant", "questions to documents, 60 % of them one tenant's, 60/s", open(60, 200, 60, func(m *maker) func() []Turn { return tenants(m, 0.6) })},
		{"shift", "40 % of 52 requests/s behind a prefix that changes every 10 s", open(60, 240, 52, func(m *maker) func() []Turn { return fashion(m, 0.4, 10) })},
		{"wide", "d with 100 model servers, 10,000 prefixes and 700 requests/s", wide},
	}
}

// cold are the first ten seconds of an empty cluster.
func cold() []Kind {
	return []Kind{
		{"cold-c", "the first 10 s of c in an empty cluster", open(0, 10, 36, tree)},
		{"cold-d", "the first 10 s of d with 40 requests/s in an empty cluster", open(0, 10, 40, func(m *maker) func() []Turn { return favourite(m, 900) })},
		{"cold-one", "the first 10 s with 90 % of 50 requests/s behind one prefix", open(0, 10, 50, func(m *maker) func() []Turn { return fashion(m, 0.9, 1000) })},
	}
}

// changing are fleets that change or fall ill under a load that leaves room for it.
func changing() []Kind {
	fleet := func(m *maker) { m.change(120, upTo(8)); m.change(210, []int{0, 2, 3, 4, 6, 7}) }
	double := func(m *maker) { m.change(100, upTo(14)) }
	stall := func(m *maker) {
		m.script.Stalls = []Stall{{Server: 3, From: m.seconds(100), To: m.seconds(130)}}
	}
	return []Kind{
		{"fleet-a", "26 questions/s to 500 documents; 7 model servers, then 8, then 6", with(fleet, open(60, 300, 26, func(m *maker) func() []Turn { return library(m, 500) }))},
		{"fleet-c", "c with 30 sessions/s; 7 model servers, then 8, then 6", with(fleet, open(60, 300, 30, tree))},
		{"double-a", "26 questions/s to 420 documents; 7 model servers become 14", with(double, open(100, 150, 26, func(m *maker) func() []Turn { return library(m, 420) }))},
		{"double-c", "c with 25 sessions/s; 7 model servers become 14", with(double, open(100, 150, 25, tree))},
		{"stall-c", "c with 25 sessions/s; a model server stalls for 30 s", with(stall, open(100, 140, 25, tree))},
		{"stall-a", "26 questions/s to 420 documents; a model server stalls for 30 s", with(stall, open(100, 140, 26, func(m *maker) func() []Turn { return library(m, 420) }))},
	}
}

// wide is d for a fleet of a hundred.
func wide(m *maker) error {
	m.script.Servers = 100
	m.lasts(30, 60)
	m.open(700, favourite(m, 10_000))
	return nil
}

func open(warm, end, rate float64, shape func(m *maker) func() []Turn) func(m *maker) error {
	return func(m *maker) error {
		m.lasts(warm, end)
		m.open(rate, shape(m))
		return nil
	}
}

func closed(warm, end float64, clients int, rate float64, shape func(m *maker) func() []Turn) func(m *maker) error {
	return func(m *maker) error {
		m.lasts(warm, end)
		m.closed(clients, rate, shape(m))
		return nil
	}
}

func with(trouble func(m *maker), load func(m *maker) error) func(m *maker) error {
	return func(m *maker) error {
		trouble(m)
		return load(m)
	}
}

func (m *maker) change(at float64, up []int) {
	m.script.Changes = append(m.script.Changes, Change{m.seconds(at), up})
}

func upTo(n int) []int {
	up := make([]int, n)
	for i := range up {
		up[i] = i
	}
	return up
}
