package main

import (
	"fmt"
	"slices"
)

// gate is one bar that a target must clear. With a peer the measured value is a ratio to the
// peer's figure in the same run, since absolute times move with the machine's other work.
type gate struct {
	Name     string  `json:"name"`
	Target   string  `json:"target"`
	Peer     string  `json:"peer,omitzero"`
	Unit     string  `json:"unit,omitzero"`
	AtLeast  bool    `json:"at_least"` // the limit is a lower bound
	Limit    float64 `json:"limit"`
	Measured float64 `json:"measured"`
	Verdict  verdict `json:"verdict"`
}

type verdict string

const (
	pass        verdict = "pass"
	fail        verdict = "FAIL"
	notMeasured verdict = "not measured" // the peer, or the figure, is missing
)

// bar is a gate before it is applied to a target.
type bar struct {
	name       string
	experiment string
	load       string
	peer       string
	unit       string
	atLeast    bool
	limit      float64
	value      func(row) float64
}

func addedP50(r row) float64 { return r.AddedP50 }
func addedP99(r row) float64 { return r.AddedP99 }
func rate(r row) float64     { return r.PerSecond }
func streamKB(r row) float64 { return r.StreamSize / 1024 }

func bars() []bar {
	return []bar{
		{name: "added p50, 1 connection, 4 KB", experiment: oneConn, load: size4K, peer: haproxy, unit: "x", limit: 2.3, value: addedP50},
		{name: "added p99, 1 connection, 4 KB", experiment: oneConn, load: size4K, peer: haproxy, unit: "x", limit: 3, value: addedP99},
		{name: "added p50, 1,000/s over 16 connections", experiment: paced, load: size4K, unit: "us", limit: 250, value: addedP50},
		{name: "added p99, 1,000/s over 16 connections", experiment: paced, load: size4K, unit: "us", limit: 1000, value: addedP99},
		{name: "added p50 to the first event, 16 streams", experiment: streams, load: sse20, peer: nginx, unit: "x", limit: 1.6, value: addedP50},
		{name: "requests/s, 4 KB", experiment: saturation, load: size4K, peer: haproxy, unit: "x", atLeast: true, limit: 0.6, value: rate},
		{name: "requests/s, 32 KB", experiment: saturation, load: size32K, peer: haproxy, unit: "x", atLeast: true, limit: 0.9, value: rate},
		{name: "requests/s, 200 KB", experiment: saturation, load: size200K, peer: haproxy, unit: "x", atLeast: true, limit: 1, value: rate},
		{name: "memory per stream, 1,000 open", experiment: memory, load: memoryLoad().name, unit: "KB", limit: 64, value: streamKB},
	}
}

// judge applies the bars of the experiments that ran to the subjects that ran.
func judge(rows []row) []gate {
	var gates []gate
	for _, subject := range []string{warmring, warmringAuto} {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.Target == subject }) {
			continue
		}
		for _, b := range bars() {
			if own, ok := find(rows, b.experiment, b.load, subject); ok {
				gates = append(gates, b.apply(rows, own))
			}
		}
		gates = append(gates, complete(rows, subject))
	}
	return gates
}

func (b bar) apply(rows []row, own row) gate {
	g := gate{Name: b.name, Target: own.Target, Peer: b.peer, Unit: b.unit, AtLeast: b.atLeast, Limit: b.limit, Verdict: notMeasured}
	g.Measured = b.value(own)
	if own.Requests == 0 || g.Measured == 0 {
		return g
	}
	if b.peer != "" {
		peer, ok := find(rows, b.experiment, b.load, b.peer)
		if !ok || b.value(peer) <= 0 {
			return g // a peer that adds nothing is noise, not a yardstick
		}
		g.Measured /= b.value(peer)
	}
	g.Verdict = fail
	if (b.atLeast && g.Measured >= b.limit) || (!b.atLeast && g.Measured <= b.limit) {
		g.Verdict = pass
	}
	return g
}

// complete is the gate on answers: all of them whole and right, in every round of every load.
func complete(rows []row, subject string) gate {
	g := gate{Name: "failed or truncated answers", Target: subject, Verdict: pass}
	for _, r := range rows {
		if r.Target == subject {
			g.Measured += float64(r.Failed)
		}
	}
	if g.Measured > 0 {
		g.Verdict = fail
	}
	return g
}

func find(rows []row, experiment, load, target string) (row, bool) {
	i := slices.IndexFunc(rows, func(r row) bool {
		return r.Experiment == experiment && r.Load == load && r.Target == target
	})
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

// limit is the bar in words.
func (g gate) limit() string {
	sign := "<="
	if g.AtLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %g%s", sign, g.Limit, g.suffix())
}

func (g gate) measured() string {
	if g.Verdict == notMeasured {
		return "-"
	}
	if g.Unit == "x" {
		return fmt.Sprintf("%.2f%s", g.Measured, g.suffix())
	}
	return fmt.Sprintf("%.0f%s", g.Measured, g.suffix())
}

func (g gate) suffix() string {
	switch {
	case g.Peer != "":
		return "x " + g.Peer
	case g.Unit != "":
		return " " + g.Unit
	}
	return ""
}
