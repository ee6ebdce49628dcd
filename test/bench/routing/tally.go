package main

import (
	"slices"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// tally collects the figures of a run.
type tally struct {
	times         []time.Duration // to the first token
	hit, tokens   int             // of the prompts
	counts        []int           // requests by model server
	over          int
	arrived       int
	finished      int
	agreed, pairs int
	moved         []float64
	all           []answer // also those that do not count
}

type answer struct {
	arrived, took time.Duration
	server        int
}

func (t *tally) first(q *call, took time.Duration) {
	t.times = append(t.times, took)
	t.hit += q.hit
	t.tokens += q.turn.Tokens
	t.counts[q.server]++
	if q.over {
		t.over++
	}
}

// figures of a run. What was not measured is nil.
type figures struct {
	Requests int      `json:"requests"`
	Hit      float64  `json:"hit"` // share of the prompts' tokens
	P50      float64  `json:"p50_ms"`
	P90      float64  `json:"p90_ms"`
	P99      float64  `json:"p99_ms"`
	Mean     float64  `json:"mean_ms"`
	Rate     float64  `json:"rps"`
	ShareMin float64  `json:"share_min"`
	ShareMax float64  `json:"share_max"`
	Overflow float64  `json:"overflow"`
	Agree    *float64 `json:"agree,omitempty"`
	Answered float64  `json:"answered"` // share of the requests that got a first token before the end
	// Tables is how many hot tables a minute were agreed on.
	Tables *float64 `json:"tables_per_minute,omitempty"`
	// Moved is the share of keys that got another home, for each change of the fleet; Around the p90 in the 20 s before and
	// after each; Settled the seconds until
	// those who came had a fair share.
	Moved   []float64 `json:"moved,omitempty"`
	Around  []float64 `json:"around_ms,omitempty"`
	Settled []float64 `json:"settled_s,omitempty"`
}

func (m *simulation) figures() figures {
	t := &m.tally
	slices.Sort(t.times)
	out := figures{
		Requests: len(t.times), Hit: ratio(t.hit, t.tokens), Overflow: ratio(t.over, len(t.times)), Answered: ratio(len(t.times), t.arrived),
		P50: percentile(t.times, 50), P90: percentile(t.times, 90), P99: percentile(t.times, 99), Mean: mean(t.times),
		Rate: float64(t.finished) / (m.script.End - m.script.Warm).Seconds(), Moved: t.moved, ShareMin: 1,
	}
	if t.pairs > 0 {
		agree := ratio(t.agreed, t.pairs)
		out.Agree = &agree
	}
	for _, n := range m.up {
		share := ratio(t.counts[n], len(t.times))
		out.ShareMin, out.ShareMax = min(out.ShareMin, share), max(out.ShareMax, share)
	}
	before := m.script.Servers
	for _, c := range m.script.Changes {
		out.Around = append(out.Around, t.between(c.At-around, c.At), t.between(c.At, c.At+around))
		if len(c.Up) > before {
			out.Settled = append(out.Settled, t.settled(c.At, c.Up[before:], len(c.Up)))
		}
		before = len(c.Up)
	}
	return out
}

// around is how long before and after a change is looked at.
const around = 20 * time.Second

// between is the p90 of the requests that arrived in that time, in ms.
func (t *tally) between(from, to time.Duration) float64 {
	var times []time.Duration
	for _, a := range t.all {
		if a.arrived >= from && a.arrived < to {
			times = append(times, a.took)
		}
	}
	slices.Sort(times)
	return percentile(times, 90)
}

// fair is how much of an even share is fair: 12 % with seven model servers.
const fair = 0.84

// settled is how many seconds after at the model servers that came have had a fair share of n for ten seconds.
func (t *tally) settled(at time.Duration, came []int, n int) float64 {
	const window = 10 * time.Second
	for from := at; from < at+2*time.Minute; from += time.Second {
		own, all := 0, 0
		for _, a := range t.all {
			if a.arrived < from || a.arrived >= from+window {
				continue
			}
			all++
			if slices.Contains(came, a.server) {
				own++
			}
		}
		if all > 0 && ratio(own, all) >= fair*ratio(len(came), n) {
			return (from + window - at).Seconds()
		}
	}
	return (2 * time.Minute).Seconds()
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func percentile(sorted []time.Duration, p float64) float64 { return ms(sheet.Percentile(sorted, p)) }

func mean(times []time.Duration) float64 {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return ms(sum) / float64(max(1, len(times)))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
