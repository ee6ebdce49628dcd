package main

import (
	"testing"
)

func TestApply(t *testing.T) {
	atMost := bar{name: "n", experiment: oneConn, load: size4K, peer: haproxy, unit: "x", limit: 2, value: addedP50}
	atLeast := bar{name: "n", experiment: oneConn, load: size4K, peer: haproxy, unit: "x", atLeast: true, limit: 0.5, value: rate}
	absolute := bar{name: "n", experiment: oneConn, load: size4K, unit: "us", limit: 250, value: addedP50}
	own := func(p50, rate float64) row {
		return row{Experiment: oneConn, Load: size4K, Target: warmring, Requests: 9, AddedP50: p50, PerSecond: rate}
	}
	peer := row{Experiment: oneConn, Load: size4K, Target: haproxy, Requests: 9, AddedP50: 50, PerSecond: 1000}
	tests := []struct {
		name string
		bar  bar
		own  row
		rows []row
		want verdict
		text string
	}{
		{"ratio under the bar", atMost, own(100, 1), []row{peer}, pass, "2.00x haproxy"},
		{"ratio over the bar", atMost, own(101, 1), []row{peer}, fail, "2.02x haproxy"},
		{"fast enough", atLeast, own(1, 500), []row{peer}, pass, "0.50x haproxy"},
		{"too slow", atLeast, own(1, 499), []row{peer}, fail, "0.50x haproxy"},
		{"absolute", absolute, own(250, 1), nil, pass, "250 us"},
		{"absolute over", absolute, own(251, 1), nil, fail, "251 us"},
		{"faster than direct is noise, and no failure", absolute, own(-3, 1), nil, pass, "-3 us"},
		{"no peer", atMost, own(100, 1), nil, notMeasured, "-"},
		{"peer adds nothing", atMost, own(100, 1), []row{{Experiment: oneConn, Load: size4K, Target: haproxy, AddedP50: -1}}, notMeasured, "-"},
		{"peer under another load", atMost, own(100, 1), []row{{Experiment: oneConn, Load: size32K, Target: haproxy, AddedP50: 50}}, notMeasured, "-"},
		{"no answers", absolute, row{Target: warmring}, nil, notMeasured, "-"},
		{"no figure", absolute, row{Target: warmring, Requests: 9}, nil, notMeasured, "-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := tt.bar.apply(tt.rows, tt.own)
			if g.Verdict != tt.want || g.measured() != tt.text {
				t.Errorf("%s, measured %s; want %s, %s", g.Verdict, g.measured(), tt.want, tt.text)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	rows := []row{
		{Experiment: oneConn, Load: size4K, Target: direct, Requests: 9},
		{Experiment: oneConn, Load: size4K, Target: haproxy, Requests: 9, Failed: 5, AddedP50: 50, AddedP99: 80},
		{Experiment: oneConn, Load: size4K, Target: warmring, Requests: 9, AddedP50: 100, AddedP99: 400},
		{Experiment: memory, Load: memoryLoad().name, Target: warmring, Requests: 1000, StreamSize: 40 << 10},
	}
	verdicts := func(gates []gate) map[string]verdict {
		m := map[string]verdict{}
		for _, g := range gates {
			if g.Target != warmring {
				t.Errorf("a gate for %s, which did not run", g.Target)
			}
			m[g.Name] = g.Verdict
		}
		return m
	}
	got := verdicts(judge(rows))
	want := map[string]verdict{
		"added p50, 1 connection, 4 KB": pass,
		"added p99, 1 connection, 4 KB": fail,
		"memory per stream, 1,000 open": pass,
		"failed or truncated answers":   pass,
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: %q, want %q", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d gates, want %d: those of experiments that did not run are no failure", len(got), len(want))
	}
	r := report{Gates: judge(rows)}
	if n := r.failures(); n != 1 {
		t.Errorf("%d failures, want 1", n)
	}
	rows[2].Failed = 1
	if v := verdicts(judge(rows))["failed or truncated answers"]; v != fail {
		t.Errorf("with a failed answer: %q", v)
	}
	if gates := judge(rows[:2]); len(gates) != 0 {
		t.Errorf("%d gates without warmring", len(gates))
	}
}

// Every bar must refer to a load that exists, or its gate would silently never be judged.
func TestBarsMatchExperiments(t *testing.T) {
	known := map[string]bool{memory + memoryLoad().name: true}
	for _, e := range timed() {
		for _, l := range e.loads {
			known[e.name+l.name] = true
		}
	}
	for _, b := range bars() {
		if !known[b.experiment+b.load] {
			t.Errorf("%s: no load %q in experiment %q", b.name, b.load, b.experiment)
		}
	}
}
