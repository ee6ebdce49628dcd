package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// Names of the experiments, as -only takes them.
const (
	oneConn    = "one-conn"
	paced      = "paced"
	streams    = "stream"
	saturation = "saturation"
	memory     = "memory"
)

// Names of the loads that gates refer to.
const (
	size4K   = "4 KB"
	size32K  = "32 KB"
	size200K = "200 KB"
	sse20    = "SSE 20"
	sse100   = "SSE 100"
)

// experiment is loads that share a table.
type experiment struct {
	name  string
	title string
	loads []load
}

// timed returns the experiments made of interleaved slices; memory is apart, see measureMemory.
func timed() []experiment {
	return []experiment{
		{
			name: oneConn, title: "One connection, closed loop",
			loads: []load{
				{name: size4K, bodySize: 4 << 10, conns: 1},
				{name: size32K, bodySize: 32 << 10, conns: 1},
				{name: size200K, bodySize: 200 << 10, conns: 1},
			},
		},
		{
			name: paced, title: "16 connections, 1,000 requests/s in total",
			loads: []load{{name: size4K, bodySize: 4 << 10, conns: 16, rate: 1000, stretch: 1.5}},
		},
		{
			name: streams, title: "16 streams of 20 events, 2 ms apart: time to the first event",
			loads: []load{{
				name: sse20, bodySize: 4 << 10, conns: 16,
				answer: answer{events: 20, pause: 2 * time.Millisecond}, stretch: 1.5,
			}},
		},
		{
			name: saturation, title: "16 connections, closed loop, as fast as it goes",
			loads: []load{
				{name: size4K, bodySize: 4 << 10, conns: 16},
				{name: size32K, bodySize: 32 << 10, conns: 16},
				{name: size200K, bodySize: 200 << 10, conns: 16},
				{name: sse100, bodySize: 4 << 10, conns: 16, answer: answer{events: 100}},
			},
		},
	}
}

// row is one target's figures under one load. Times are microseconds; a figure that was not
// measured is 0.
type row struct {
	Experiment string `json:"experiment"`
	Load       string `json:"load"`
	Target     string `json:"target"`
	Requests   int    `json:"requests"`
	Failed     int    `json:"failed"`
	Failure    string `json:"failure,omitzero"` // one example

	P50        float64 `json:"p50_us,omitzero"`
	P99        float64 `json:"p99_us,omitzero"`
	AddedP50   float64 `json:"added_p50_us,omitzero"`
	AddedP99   float64 `json:"added_p99_us,omitzero"`
	PerSecond  float64 `json:"requests_per_s,omitzero"`
	CPU        float64 `json:"cpu_s_per_10k_requests,omitzero"`
	EventCPU   float64 `json:"cpu_us_per_event,omitzero"`
	StreamSize float64 `json:"resident_bytes_per_stream,omitzero"`
}

// runner measures the targets; everything happens on one goroutine but the clients' own work.
type runner struct {
	rounds   int
	slice    time.Duration
	targets  []*target // the first is direct
	rng      *rand.Rand
	progress *progress
}

// lane is one target's part in the measurement of one load.
type lane struct {
	target *target
	pids   []int
	crew   *crew
	rounds series
	row    row
}

func (r *runner) run(ctx context.Context, e experiment) ([]row, error) {
	var rows []row
	for _, l := range e.loads {
		more, err := r.measure(ctx, e.name, l)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", e.name, l.name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// measure gives every target a slice per round, in a new random order each round. A first,
// shorter round warms up connections and heaps; only its failures count.
func (r *runner) measure(ctx context.Context, name string, l load) ([]row, error) {
	s, err := newScript(l)
	if err != nil {
		return nil, err
	}
	lanes := make([]*lane, len(r.targets))
	for i, t := range r.targets {
		c, err := newCrew(ctx, s, t.addrs)
		if err != nil {
			return nil, t.explain(fmt.Errorf("connections to %s: %w", t.name, err))
		}
		defer c.close()
		lanes[i] = &lane{target: t, pids: t.pids(), crew: c, row: row{Experiment: name, Load: l.name, Target: t.name}}
	}
	length := r.sliceOf(l)
	for n := -1; n < r.rounds; n++ {
		for _, i := range r.rng.Perm(len(lanes)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r.progress.step(fmt.Sprintf("%s, %s, %s", name, l.name, lanes[i].target.name), 1)
			if n < 0 {
				lanes[i].turn(ctx, length/2)
				continue
			}
			lanes[i].rounds = append(lanes[i].rounds, lanes[i].turn(ctx, length))
		}
	}
	rows := make([]row, len(lanes))
	for i, lane := range lanes {
		rows[i] = lane.result(lanes[0].rounds)
	}
	return rows, nil
}

func (r *runner) sliceOf(l load) time.Duration {
	if l.stretch > 0 {
		return time.Duration(l.stretch * float64(r.slice))
	}
	return r.slice
}

func (l *lane) turn(ctx context.Context, length time.Duration) round {
	before, err1 := cpuTime(l.pids)
	out := l.crew.work(ctx, length)
	after, err2 := cpuTime(l.pids)
	l.row.Failed += out.failed
	if out.failure != nil && l.row.Failure == "" {
		l.row.Failure = out.failure.Error()
	}
	done := len(out.latencies)
	result := round{
		done: done, events: done * l.crew.script.answer.events, elapsed: out.elapsed, cpu: after - before,
		p50: sheet.Percentile(out.latencies, 50), p99: sheet.Percentile(out.latencies, 99),
	}
	if err1 != nil || err2 != nil {
		result.cpu = -1
	}
	return result
}

func (l *lane) result(base series) row {
	out := l.row
	for _, r := range l.rounds {
		out.Requests += r.done
	}
	out.P50, out.P99 = tidy(l.rounds.median(p50us)), tidy(l.rounds.median(p99us))
	out.PerSecond = tidy(l.rounds.median(perSecond))
	if l.target.child != nil {
		out.AddedP50, out.AddedP99 = tidy(l.rounds.added(base, p50us)), tidy(l.rounds.added(base, p99us))
		out.CPU, out.EventCPU = tidy(l.rounds.median(cpuPer10k)), tidy(l.rounds.median(cpuPerEventUs))
	}
	return out
}

// tidy drops the digits that mean nothing.
func tidy(v float64) float64 { return math.Round(v*1000) / 1000 }
