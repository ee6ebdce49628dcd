package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmring/warmring/test/bench/sheet"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-targets", "warmring,haproxy", "-only", "memory, one-conn", "-gate"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.targets, []string{direct, haproxy, warmring}) {
		t.Errorf("targets %v: direct goes first and always", o.targets)
	}
	if !slices.Equal(o.only, []string{oneConn, memory}) || !o.gate || o.require {
		t.Errorf("options %+v", o)
	}
	for _, args := range [][]string{
		{"-targets", "caddy"}, {"-only", ""}, {"-rounds", "0"}, {"-slice", "1ms"}, {"extra"}, {"-nonsense"},
	} {
		if _, err := parseOptions(args); !errors.Is(err, sheet.ErrUsage) {
			t.Errorf("%v: error %v, want wrong usage", args, err)
		}
	}
}

func TestTable(t *testing.T) {
	text := table(experiment{name: saturation, title: "As fast as it goes"}, []row{
		{Load: size4K, Target: direct, Requests: 9, PerSecond: 100000},
		{Load: size4K, Target: warmring, Requests: 9, PerSecond: 31000, CPU: 0.4},
		{Load: size32K, Target: direct, Requests: 9, PerSecond: 70000, Failed: 2, Failure: "cut"},
	})
	want := `
As fast as it goes
  load   target     req/s  p50 us  p99 us  CPU s/10k  answers  failed
  4 KB   direct    100000       -       -          -        9       0
  4 KB   warmring   31000       -       -       0.40        9       0

  32 KB  direct     70000       -       -          -        9       2
  direct, 32 KB: 2 failed, for example: cut
`
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}

func TestVerdicts(t *testing.T) {
	text := verdicts([]gate{
		{Verdict: pass, Target: warmring, Name: "added p50", Unit: "x", Peer: haproxy, Limit: 2.3, Measured: 1.9},
		{Verdict: fail, Target: warmring, Name: "failed", Measured: 3},
	})
	for _, want := range []string{"pass  warmring  added p50  1.90x haproxy  <= 2.3x haproxy\n", "FAIL  warmring  failed     3              <= 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in:\n%s", want, text)
		}
	}
}

func TestProcessFigures(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the kernel tells no schedstat")
	}
	self := []int{os.Getpid()}
	if cpu, err := cpuTime(self); err != nil || cpu <= 0 {
		t.Errorf("CPU time %v, error %v", cpu, err)
	}
	if size, err := resident(self); err != nil || size < 1<<20 {
		t.Errorf("%d bytes resident, error %v", size, err)
	}
	if pids := family(os.Getppid()); !slices.Contains(pids, os.Getpid()) {
		t.Errorf("the parent's family %v lacks this process", pids)
	}
	if _, err := cpuTime([]int{1 << 30}); err == nil {
		t.Error("no error for a process that is not there")
	}
}
