package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// report is the whole result, as it is written to the JSON file.
type report struct {
	Time    time.Time     `json:"time"`
	Short   bool          `json:"short"` // for a look, not for a comparison
	Seconds float64       `json:"seconds"`
	Gap     float64       `json:"gap_ms"`
	Delay   float64       `json:"delay_ms"`
	Machine sheet.Machine `json:"machine"`
	Rows    []row         `json:"rows"`
	Gates   []gate        `json:"gates"`
}

// missed is how many gates were not reached.
func (r *report) missed() int {
	n := 0
	for _, g := range r.Gates {
		if !g.Reached {
			n++
		}
	}
	return n
}

// scene is what rows of different seeds have in common.
type scene struct {
	workload, policy string
	routers          int
}

// summary is the means over the seeds; of shares the extremes.
type summary struct {
	scenes []scene // in the rows' order
	of     map[scene]figures
}

func summarise(rows []row) summary {
	s := summary{of: map[scene]figures{}}
	groups := map[scene][]figures{}
	for _, r := range rows {
		k := scene{r.Workload, r.Policy, r.Routers}
		if groups[k] == nil {
			s.scenes = append(s.scenes, k)
		}
		groups[k] = append(groups[k], r.figures)
	}
	for k, g := range groups {
		s.of[k] = average(g)
	}
	return s
}

func average(g []figures) figures {
	out := figures{ShareMin: 1}
	n := float64(len(g))
	for i := range g {
		f := &g[i]
		out.Requests += f.Requests
		out.Hit += f.Hit / n
		out.P50 += f.P50 / n
		out.P90 += f.P90 / n
		out.P99 += f.P99 / n
		out.Mean += f.Mean / n
		out.Rate += f.Rate / n
		out.Overflow += f.Overflow / n
		out.Answered += f.Answered / n
		out.ShareMin, out.ShareMax = min(out.ShareMin, f.ShareMin), max(out.ShareMax, f.ShareMax)
		out.Agree = plus(out.Agree, f.Agree, n)
		out.Tables = plus(out.Tables, f.Tables, n)
		out.Moved = add(out.Moved, f.Moved, n)
		out.Around = add(out.Around, f.Around, n)
		out.Settled = add(out.Settled, f.Settled, n)
	}
	return out
}

// plus adds a n-th of b to a; nil was not measured.
func plus(a, b *float64, n float64) *float64 {
	if b == nil {
		return a
	}
	sum := *b / n
	if a != nil {
		sum += *a
	}
	return &sum
}

// add adds a n-th of b to a.
func add(a, b []float64, n float64) []float64 {
	for len(a) < len(b) {
		a = append(a, 0)
	}
	for i := range b {
		a[i] += b[i] / n
	}
	return a
}

// String is the table for the screen.
func (s summary) String() string {
	lines := [][]string{{
		"workload", "routers", "policy", "hit %", "p50 ms", "p90 ms", "p99 ms", "mean ms", "req/s", "share %", "overflow %", "agree %", "tables/min", "moved %", "p90 around ms", "settled s",
	}}
	last := ""
	for _, k := range s.scenes {
		f := s.of[k]
		name := k.workload
		if name == last {
			name = ""
		} else if last != "" {
			lines = append(lines, nil)
		}
		last = k.workload
		lines = append(lines, []string{
			name, fmt.Sprint(k.routers), k.label(), percent(f.Hit), round(f.P50), round(f.P90), round(f.P99), round(f.Mean), fmt.Sprintf("%.1f", f.Rate),
			percent(f.ShareMin) + "-" + percent(f.ShareMax), percent(f.Overflow), maybe(f.Agree, percent), maybe(f.Tables, tenths), each(f.Moved, percent), each(f.Around, round), each(f.Settled, round),
		})
	}
	return sheet.Grid(lines, 1)
}

// label is the policy with the prefix length that it stands for.
func (k scene) label() string {
	best, bad := lengths(k.workload)
	switch k.policy {
	case bestPolicy:
		return fmt.Sprintf("best (%d)", best)
	case badPolicy:
		return fmt.Sprintf("bad (%d)", bad)
	}
	return k.policy
}

func percent(x float64) string { return fmt.Sprintf("%.1f", 100*x) }

func round(x float64) string { return fmt.Sprintf("%.0f", x) }

func tenths(x float64) string { return fmt.Sprintf("%.1f", x) }

func maybe(x *float64, text func(float64) string) string {
	if x == nil {
		return "-"
	}
	return text(*x)
}

func each(xs []float64, text func(float64) string) string {
	if len(xs) == 0 {
		return "-"
	}
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = text(x)
	}
	return strings.Join(out, " ")
}
