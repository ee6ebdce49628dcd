package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPlansAreText(t *testing.T) {
	text := "4s split n00,n03|n01 for 11s; 500ms slow n00|n01 delay 5ms loss 0.25 for 1m0s; 18s kill n02; 20s clock n00 delay -3h0m0s"
	p, err := ParsePlan(text)
	if err != nil || p.String() != text {
		t.Errorf("%v, %v", p, err)
	}
	all := []Action{Kill, Move, Pause, Clock, Split, OneWay, BlackHole, Datagrams, Streams, Slow}
	for seed := range uint64(100) {
		draw := func() Plan {
			return RandomPlan(rand.New(rand.NewPCG(seed, 0)), []string{"a", "b", "c"}, time.Minute, Mix{Actions: all, Every: time.Second})
		}
		p := draw()
		again, err := ParsePlan(strings.ReplaceAll(p.String(), "; ", ";\n"))
		if err != nil || !reflect.DeepEqual(p, again) || !reflect.DeepEqual(p, draw()) || len(p) < 10 {
			t.Fatalf("%v\n%v\n%v", err, p, again)
		}
	}
}

func TestPlansThatMakeNoSense(t *testing.T) {
	for text, says := range map[string]string{
		"4s split n00":                 "wrong number of groups",
		"4s kill n00|n01":              "wrong number of groups",
		"4s explode n00":               `no action "explode"`,
		"soon kill n00":                "invalid duration",
		"4s kill":                      "want when, what, who",
		"4s kill n00 for":              "want when, what, who",
		"4s kill n00 for ever":         "invalid duration",
		"4s slow n00|n01 loss much":    "invalid syntax",
		"1s kill n00; 4s kill n00 w 3": `no "w"`,
	} {
		if _, err := ParsePlan(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}

func TestSeedsFromTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		o    Options
		want []uint64
	}{
		{nil, Options{Seeds: 3}, []uint64{1, 2, 3}},
		{map[string]string{"SIM_SEEDS": "4"}, Options{Seeds: 7}, []uint64{1, 2, 3, 4}},
		{map[string]string{"SIM_SEEDS": "4"}, Options{Most: 2}, []uint64{1, 2}},
		{map[string]string{"SIM_SEEDS": "3", "SIM_BASE": "40"}, Options{}, []uint64{40, 41, 42}},
		{map[string]string{"SIM_SEED": "41", "SIM_SEEDS": "3", "SIM_SHARD": "1/2"}, Options{}, []uint64{41}},
		{map[string]string{"SIM_SEED": "0"}, Options{}, []uint64{0}},
		{map[string]string{"SIM_SEEDS": "5", "SIM_SHARD": "1/2"}, Options{}, []uint64{1, 3, 5}},
		{map[string]string{"SIM_SEEDS": "5", "SIM_SHARD": "2/2"}, Options{}, []uint64{2, 4}},
		{map[string]string{"SIM_SEEDS": "5", "SIM_SHARD": "2/2"}, Options{Most: 1}, nil},
	} {
		for _, name := range []string{"SIM_SEED", "SIM_SEEDS", "SIM_BASE", "SIM_SHARD"} {
			t.Setenv(name, tt.env[name])
		}
		if testing.Short() && tt.env == nil {
			tt.want = tt.want[:1]
		}
		if got, err := tt.o.seeds("odd"); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: %d, want %d, %v", tt.env, got, tt.want, err)
		}
	}
	t.Setenv("SIM_SHARD", "3/2")
	if _, err := (Options{}).seeds("odd"); err == nil {
		t.Error("SIM_SHARD=3/2 is taken")
	}
	t.Setenv("SIM_SEED", "x")
	if _, err := (Options{}).seeds("odd"); err == nil || !strings.Contains(err.Error(), "SIM_SEED") {
		t.Errorf("SIM_SEED=x: %v", err)
	}
}

func TestTheTableOfWaits(t *testing.T) {
	waits := newTable()
	for i := range 100 {
		waits.add("a leader", time.Duration(i+1)*time.Millisecond)
	}
	waits.add("healed", time.Second)
	var b strings.Builder
	waits.print(&b)
	want := `virtual time until  n    p50   p95   max
a leader            100  51ms  95ms  100ms
healed              1    1s    1s    1s
`
	if b.String() != want {
		t.Errorf("got\n%s", &b)
	}
}

func TestRingKeepsTheLastLines(t *testing.T) {
	t.Setenv("SIM_LINES", "2")
	r := newRing()
	for _, text := range []string{"a\n", "b\nc\n", "d\n"} {
		if _, err := r.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if r.tail() != "c\nd\n" {
		t.Errorf("%q", r.tail())
	}
}
