package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// size is how much of everything is measured.
type size struct {
	epochReplicas []int
	writes        int // for each number of replicas

	viewReplicas []int
	viewFor      time.Duration

	overflowReplicas []int
	slices           int // of load for each number of replicas, taken in turn
	slice            time.Duration

	costBackends []int
	costFor      time.Duration // idle, and again under load

	bodies int // whose homes are compared
	kills  int
	seeds  int // of partitions
}

func full() size {
	return size{
		epochReplicas: []int{3, 5, 20, 50}, writes: 100,
		viewReplicas: []int{3, 8}, viewFor: 20 * time.Second,
		overflowReplicas: []int{1, 2, 4, 8}, slices: 4, slice: 8 * time.Second,
		costBackends: []int{100, 1000}, costFor: 20 * time.Second,
		bodies: 5000, kills: 10, seeds: 40,
	}
}

func quick() size {
	return size{
		epochReplicas: []int{3, 20}, writes: 10,
		viewReplicas: []int{3}, viewFor: 3 * time.Second,
		overflowReplicas: []int{1, 4}, slices: 2, slice: 2 * time.Second,
		costBackends: []int{100}, costFor: 3 * time.Second,
		bodies: 500, kills: 1, seeds: 3,
	}
}

// experiment makes one table.
type experiment struct {
	name string
	run  func(context.Context, *session) (table, error)
}

func experiments() []experiment {
	return []experiment{
		{"epochs", epochsVisible},
		{"view", viewAge},
		{"overflow", falseOverflow},
		{"cost", cost},
		{"keys", movedKeys},
		{"leader", leaderKilled},
		{"heal", healed},
	}
}

// session is one run of the benchmark.
type session struct {
	size     size
	rate     float64 // requests a second, over all routers
	dir      string  // for configurations and logs; temporary
	progress *progress
}

// bench runs the chosen experiments and prints each table as soon as it is there.
func bench(ctx context.Context, o options, out io.Writer) (*report, error) {
	begin := time.Now()
	s := &session{size: full(), rate: o.rate, progress: newProgress(os.Stderr)}
	if o.quick {
		s.size = quick()
	}
	r := &report{Time: begin.UTC(), Quick: o.quick, Rate: o.rate, Machine: sheet.ThisMachine()}
	dir, err := os.MkdirTemp("", "warmring-cluster-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	s.dir = dir
	if _, err := fmt.Fprintf(out, "%s, %s\n", begin.Format("2006-01-02 15:04"), r.Machine); err != nil {
		return nil, err
	}
	for _, e := range experiments() {
		if !slices.Contains(o.only, e.name) {
			continue
		}
		from := time.Now()
		t, err := e.run(ctx, s)
		s.progress.clear()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		t.Name, t.Seconds = e.name, time.Since(from).Round(time.Second).Seconds()
		r.Tables = append(r.Tables, t)
		if _, err := io.WriteString(out, t.String()); err != nil {
			return nil, err
		}
	}
	r.Gates = judge(r.Tables)
	r.Machine.LoadAfter = sheet.LoadAverage()
	r.Seconds = time.Since(begin).Seconds()
	_, err = io.WriteString(out, verdicts(r.Gates))
	return r, err
}

// sleep waits, and reports whether ctx is still there.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
