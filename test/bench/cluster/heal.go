package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// healTest is the scenario; its file says what it is. healWait is the wait whose times it prints.
const (
	healTest = "TestHealing"
	healWait = "healed"
)

// healed measures how long after a partition the cluster is one again.
func healed(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: "Heal after a partition of 5 replicas, 3 and 2, of 5 to 60 s",
		Notes: []string{
			"until all routers know each other, have one epoch and take a write; partitions, delays and losses from a seed each",
			"virtual time, in the simulated network of test/sim: loopback cannot be cut",
		},
		Columns: []string{"p50_s", "p95_s", "max_s", "seeds"},
	}
	s.progress.step("heal, %d seeds", s.size.seeds)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^"+healTest+"$", "./test/bench/cluster")
	cmd.Env = append(os.Environ(), "SIM_SEEDS="+strconv.Itoa(s.size.seeds), "SIM_SEED=", "SIM_BASE=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return t, fmt.Errorf("%s (from the root of the repository): %w\n%s", cmd, err, out[max(0, len(out)-4000):])
	}
	values, err := readWaits(out)
	if err != nil {
		return t, err
	}
	t.add("5 replicas", values)
	return t, nil
}

var errNoWaits = errors.New("the scenario printed no times")

// readWaits reads the line of healWait in the table that test/sim prints: name, count, p50, p95, max.
func readWaits(out []byte) (map[string]float64, error) {
	fields := regexp.MustCompile(`(?m)^\s*` + healWait + `\s+(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$`).FindSubmatch(out)
	if fields == nil {
		return nil, fmt.Errorf("%w: %s", errNoWaits, bytes.TrimSpace(out[max(0, len(out)-1000):]))
	}
	seeds, err := strconv.Atoi(string(fields[1]))
	values := map[string]float64{"seeds": float64(seeds)}
	for i, name := range []string{"p50_s", "p95_s", "max_s"} {
		d, wrong := time.ParseDuration(string(fields[2+i]))
		err = errors.Join(err, wrong)
		values[name] = d.Seconds()
	}
	return values, err
}
