package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/test/workload"
)

// job is one run to make.
type job struct {
	workload, policy string
	seed             uint64
	routers          int
	length           float64 // share of the workload's time
}

// row is a job's figures, as they go to the JSON file.
type row struct {
	Workload     string `json:"workload"`
	Policy       string `json:"policy"`
	Seed         uint64 `json:"seed"`
	Routers      int    `json:"routers"`
	PrefixLength int    `json:"prefix_length,omitempty"`
	figures
	Seconds float64 `json:"seconds"` // that the run took
}

// play makes one run.
func (j job) play(o *options) (row, error) {
	began := time.Now()
	s, err := workload.New(j.workload, workload.Options{Seed: j.seed, Length: j.length, Trace: o.trace})
	if err != nil {
		return row{}, err
	}
	policy, err := resolve(j.policy, j.workload)
	if err != nil {
		return row{}, err
	}
	k := large()
	m := newSimulation(s, k, j.routers, j.seed)
	l := o.links
	if j.policy == ownPolicy {
		l.gap = 0
	}
	var tables *float64
	if j.policy == oraclePolicy {
		m.run(&oracle{servers: m.servers})
	} else {
		c := newCluster(m.clock, l, policy, j.routers, k.kv, j.seed)
		m.run(c)
		err, tables = c.err, c.tables(s.Warm, s.End)
	}
	if err != nil {
		return row{}, fmt.Errorf("%s, %s, seed %d, %d routers: %w", j.workload, j.policy, j.seed, j.routers, err)
	}
	f := m.figures()
	f.Tables = tables
	return row{
		Workload: j.workload, Policy: j.policy, Seed: j.seed, Routers: j.routers, PrefixLength: policy.PrefixLength,
		figures: f, Seconds: time.Since(began).Seconds(),
	}, nil
}

// playAll makes the runs side by side, and returns their rows in the jobs' order. Each is deterministic by
// itself. It tells progress how far it is.
func playAll(ctx context.Context, jobs []job, o *options, progress io.Writer) ([]row, error) {
	rows := make([]row, len(jobs))
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, j := range jobs {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := j.play(o)
			rows[i] = r
			_, _ = fmt.Fprintf(progress, "\r\x1b[K%d of %d runs: %s", done.Add(1), len(jobs), j.workload)
			return err
		})
	}
	err := g.Wait()
	_, _ = fmt.Fprint(progress, "\r\x1b[K")
	return rows, err
}
