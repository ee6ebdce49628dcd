package main

import (
	"fmt"

	"github.com/warmring/warmring/test/bench/sheet"
)

// gate is a bar that `auto` must clear.
type gate struct {
	Name     string  `json:"name"`
	AtLeast  bool    `json:"at_least"` // the limit is a lower bound
	Limit    float64 `json:"limit"`
	Measured float64 `json:"measured"`
	Reached  bool    `json:"reached"`
}

// judge holds figures against the gates. One whose figures were not measured is left out.
type judge struct {
	summary
	gates []gate
}

func (j *judge) least(name string, measured, limit float64) {
	j.gates = append(j.gates, gate{name, true, limit, measured, measured >= limit})
}

func (j *judge) most(name string, measured, limit float64) {
	j.gates = append(j.gates, gate{name, false, limit, measured, measured <= limit})
}

// auto is the figures of `auto`; with three routers unless said otherwise.
func (j *judge) auto(workload string) (figures, bool) { return j.figures(workload, autoPolicy, 3) }

func (j *judge) figures(workload, policy string, routers int) (figures, bool) {
	f, ok := j.of[scene{workload, policy, routers}]
	return f, ok
}

// counting is the better mean of the two forms of LEAST_OUTSTANDING_REQUESTS; 0: not measured.
func (j *judge) counting(workload string) float64 {
	best := 0.0
	for _, p := range []string{leastPolicy, ownPolicy} {
		if f, ok := j.figures(workload, p, 3); ok && (best == 0 || f.Mean < best) {
			best = f.Mean
		}
	}
	return best
}

// bar is what a laboratory model of the design reached on a usual workload: hits in percent, and by how many percent it is
// faster than RANDOM; then the range of shares and the agreement, in percent, that are asked for.
type bar struct {
	workload           string
	hit, p50, p90      float64
	shareMin, shareMax float64
	agree              float64
}

func bars() []bar {
	return []bar{
		{"a1", 81, 85, 21, 12, 17, 80},
		{"a2", 96, 86, 92, 13.3, 15.4, 80},
		{"b", 87, 18, 44, 12, 17, 80},
		{"c", 95, 65, 79, 12, 17, 90},
		{"d", 94, 19, 72, 13.3, 15.4, 80},
		{"e1", 24.6, 67, 76, 12, 17, 80},
	}
}

// full is the gates of a full run.
func (j *judge) full() {
	for _, b := range bars() {
		j.usual(b)
		j.scaled(b.workload, 1.1)
	}
	j.against("cold-c", 1)
	j.against("growing", 1)
	j.against("growing-200", 1)
	j.against("wide", 1)
	for _, w := range []string{"unique", "single", "creeping"} {
		j.against(w, 1.05)
	}
	if f, ok := j.auto("stall-c"); ok {
		j.against("stall-c", 1)
		j.most("stall-c: p99, ms", f.P99, 500)
	}
	if f, ok := j.auto("double-a"); ok {
		j.most("double-a: p99, ms", f.P99, 400)
	}
	j.joined("fleet-a")
	j.joined("fleet-c")
	if f, ok := j.auto("fleet-a"); ok && len(f.Moved) == 2 {
		j.most("fleet-a: moved keys, 7 to 8, off the ideal, points", 100*abs(f.Moved[0]-1.0/8), 2)
		j.most("fleet-a: moved keys, 8 to 6, off the ideal, points", 100*abs(f.Moved[1]-2.0/8), 2)
	}
}

// usual holds a workload against the laboratory.
func (j *judge) usual(b bar) {
	f, ok := j.auto(b.workload)
	if !ok {
		return
	}
	j.least(b.workload+": hits, %", 100*f.Hit, b.hit-2)
	if r, ok := j.figures(b.workload, randomPolicy, 3); ok {
		j.least(b.workload+": p50 below RANDOM, %", 100*(1-f.P50/r.P50), 0.9*b.p50)
		j.least(b.workload+": p90 below RANDOM, %", 100*(1-f.P90/r.P90), 0.9*b.p90)
	}
	j.least(b.workload+": least share, %", 100*f.ShareMin, b.shareMin)
	j.most(b.workload+": greatest share, %", 100*f.ShareMax, b.shareMax)
	if f.Agree != nil {
		j.least(b.workload+": pairs of routers agree, %", 100**f.Agree, b.agree)
	}
}

// scaled compares eight routers with one, which may be so much slower.
func (j *judge) scaled(workload string, slower float64) {
	one, ok := j.figures(workload, autoPolicy, 1)
	eight, too := j.figures(workload, autoPolicy, 8)
	if ok && too {
		j.least(workload+": hits with 8 routers less those with 1, points", 100*(eight.Hit-one.Hit), -2)
		j.most(workload+": p90 with 8 routers, of that with 1", eight.P90/one.P90, slower)
	}
}

// against compares the mean with that of LEAST_OUTSTANDING_REQUESTS.
func (j *judge) against(workload string, factor float64) {
	if f, ok := j.auto(workload); ok && j.counting(workload) > 0 {
		j.most(workload+": mean, of the better LEAST_OUTSTANDING_REQUESTS", f.Mean/j.counting(workload), factor)
	}
}

// joined looks at the time after a model server joined.
func (j *judge) joined(workload string) {
	f, ok := j.auto(workload)
	if !ok || len(f.Around) < 2 || len(f.Settled) == 0 {
		return
	}
	j.most(workload+": a new model server has its share after, s", f.Settled[0], 60)
	j.most(workload+": p90 after a join, of that before", f.Around[1]/f.Around[0], 1.5)
}

func abs(x float64) float64 { return max(x, -x) }

// floor is what a short run must reach at least: a regression shows, a little luck does not.
type floor struct {
	workload string
	hit      float64 // percent
	oracle   float64 // p90 of the oracle's, at most
}

func floors() []floor {
	return []floor{{"a1", 78, 1.2}, {"a2", 89, 1.3}, {"b", 82, 1.3}, {"c", 89, 1.6}, {"d", 87, 1.3}}
}

// short is the gates of a short run.
func (j *judge) short() {
	for _, b := range floors() {
		f, ok := j.auto(b.workload)
		if !ok {
			continue
		}
		j.least(b.workload+": hits, %", 100*f.Hit, b.hit)
		if best, ok := j.figures(b.workload, oraclePolicy, 3); ok {
			j.most(b.workload+": p90, of the oracle's", f.P90/best.P90, b.oracle)
		}
		if f.Agree != nil {
			j.least(b.workload+": pairs of routers agree, %", 100**f.Agree, 75)
		}
	}
	j.scaled("c", 1.3) // half the requests come while caches fill
	j.against("unique", 1.05)
	j.against("growing", 1)
	j.against("cold-c", 1.05)
}

// table is the gates for the screen, those that were missed last.
func table(gates []gate) string {
	lines := [][]string{{"gate", "measured", "limit", ""}}
	for _, reached := range []bool{true, false} {
		for _, g := range gates {
			if g.Reached != reached {
				continue
			}
			sign, verdict := "<=", "MISSED"
			if g.AtLeast {
				sign = ">="
			}
			if g.Reached {
				verdict = "ok"
			}
			lines = append(lines, []string{g.Name, fmt.Sprintf("%.2f", g.Measured), fmt.Sprintf("%s %.2f", sign, g.Limit), verdict})
		}
	}
	return sheet.Grid(lines, 1)
}
