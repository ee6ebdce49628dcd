package main

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/test/bench/sheet"
)

func TestPercentile(t *testing.T) {
	values := []time.Duration{4, 1, 3, 2}
	for p, want := range map[float64]time.Duration{0: 1, 50: 2, 75: 3, 99: 4, 100: 4} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%v of 1..4 is %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("p50 of nothing is %d", got)
	}
}

func TestGates(t *testing.T) {
	var heal, view table
	heal.Name, view.Name = "heal", "view"
	heal.add("a", map[string]float64{"max_s": 3})
	heal.add("b", map[string]float64{"max_s": 30.001})
	view.add("a", map[string]float64{"p99_ms": 250})
	got := map[string]bool{}
	for _, g := range judge([]table{heal, view, {Name: "leader"}}) {
		got[g.Name] = g.Reached
	}
	want := map[string]bool{
		"heal after a partition": false, "age of the view, p99": true,
		// not measured is not reached
		"kill of the leader to the next epoch (5 s + an election)": false, "failed requests on the other routers": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	one := table{Title: "Title", Columns: []string{"p50_ms", "lost"}, Notes: []string{"a note"}, Seconds: 2}
	one.add("3 replicas", map[string]float64{"p50_ms": 1.2})
	one.fails("the first")
	one.fails("the second")
	want := "\nTitle (took 2 s)\n              p50 ms  lost\n  3 replicas    1.20     -\n  * a note\n  ! the first\n"
	if diff := cmp.Diff(want, one.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReadWaits(t *testing.T) {
	out := "    virtual time until  n  p50  p95  max\n    settled   50  1s  2s  3s\n    healed    50  640ms  15.8s  16.1s\n"
	got, err := readWaits([]byte(out))
	want := map[string]float64{"seeds": 50, "p50_s": 0.64, "p95_s": 15.8, "max_s": 16.1}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := readWaits([]byte("settled 1 1s 1s 1s")); !errors.Is(err, errNoWaits) {
		t.Errorf("without the line: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-rate", "0"}, {"-rate", "NaN"}, {"more"}} {
		if _, err := parseOptions(args); !errors.Is(err, sheet.ErrUsage) {
			t.Errorf("%q: %v, want %v", args, err, sheet.ErrUsage)
		}
	}
	o, err := parseOptions([]string{"-quick", "-only", "view, keys"})
	if diff := cmp.Diff([]string{"view", "keys"}, o.only); err != nil || !o.quick || diff != "" {
		t.Error(err, diff)
	}
}

func TestOverflowIsComparedSliceBySlice(t *testing.T) {
	slice := func(overflow int) outcome {
		return outcome{decisions: map[string]int{"overflow": overflow, "home": 100 - overflow}, took: make([]time.Duration, 100)}
	}
	var got table
	overflowRow(&got, &session{rate: 1}, 2, []outcome{slice(12), slice(22)}, []outcome{slice(10), slice(20)})
	if v := got.Rows[0].Values; v["overflow_%"] != 17 || v["false_points"] != 2 || v["error_points"] != 0 {
		t.Errorf("%v", v)
	}
}
