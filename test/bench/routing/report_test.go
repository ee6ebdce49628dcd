package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmring/warmring/test/bench/sheet"
)

func TestAverage(t *testing.T) {
	agree, tables := 0.5, 3.0
	f := average([]figures{
		{Requests: 10, Hit: 0.2, Mean: 100, ShareMin: 0.1, ShareMax: 0.2, Agree: &agree, Tables: &tables, Moved: []float64{0.1, 0.3}},
		{Requests: 20, Hit: 0.4, Mean: 200, ShareMin: 0.12, ShareMax: 0.3, Agree: &agree, Tables: &tables, Moved: []float64{0.3, 0.5}},
	})
	if f.Requests != 30 || f.Mean != 150 || f.ShareMin != 0.1 || f.ShareMax != 0.3 || *f.Agree != 0.5 || *f.Tables != 3 || each(f.Moved, percent) != "20.0 40.0" {
		t.Errorf("%+v", f)
	}
}

func TestGates(t *testing.T) {
	rows := []row{
		{Workload: "b", Policy: autoPolicy, Routers: 3, figures: figures{Hit: 0.86, P50: 40, P90: 46, Mean: 41, ShareMin: 0.13, ShareMax: 0.18}},
		{Workload: "b", Policy: randomPolicy, Routers: 3, figures: figures{P50: 50, P90: 86}},
		{Workload: "b", Policy: autoPolicy, Routers: 1, figures: figures{Hit: 0.9, P90: 46}},
		{Workload: "b", Policy: autoPolicy, Routers: 8, figures: figures{Hit: 0.87, P90: 50}},
		{Workload: "unique", Policy: autoPolicy, Routers: 3, figures: figures{Mean: 104}},
		{Workload: "unique", Policy: leastPolicy, Routers: 3, figures: figures{Mean: 120}},
		{Workload: "unique", Policy: ownPolicy, Routers: 3, figures: figures{Mean: 100}},
	}
	j := judge{summary: summarise(rows)}
	j.full()
	want := map[string]bool{
		"b: hits, %": true, "b: p50 below RANDOM, %": true, "b: p90 below RANDOM, %": true, "b: least share, %": true, "b: greatest share, %": false,
		"b: hits with 8 routers less those with 1, points": false, "b: p90 with 8 routers, of that with 1": true,
		"unique: mean, of the better LEAST_OUTSTANDING_REQUESTS": true,
	}
	for _, g := range j.gates {
		reached, ok := want[g.Name]
		if !ok || reached != g.Reached {
			t.Errorf("%+v: expected %v, reached %v", g, ok, reached)
		}
		delete(want, g.Name)
	}
	if len(want) > 0 {
		t.Errorf("not judged: %v", want)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{
		"-seeds x", "-seeds ,", "-routers 0", "-routers x", "-workloads z", "-policies z", "-length -1", "-length NaN", "-gap 0", "-delay -1s", "more",
	} {
		if _, err := parseOptions(strings.Fields(args)); !errors.Is(err, sheet.ErrUsage) {
			t.Errorf("%s: %v", args, err)
		}
	}
	o, err := parseOptions(strings.Fields("-short -seeds 3,4 -workloads c,e1 -policies auto -routers 1,2"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := plan(o)
	if len(jobs) != 4 { // c is in two stages of a short run, and e1 has no trace
		t.Errorf("%d jobs: %v", len(jobs), jobs)
	}
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "routing.json")
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-workloads cold-d,e1 -policies random,auto -seeds 7 -o "+file), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cold-d", "random", "auto", "e1 is left out"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Policy != randomPolicy || r.Rows[0].Seed != 7 || r.Rows[0].Requests == 0 || r.Machine.Cores == 0 {
		t.Errorf("%+v", r)
	}
}
