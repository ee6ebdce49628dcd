package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	sampleEvery = 37 * time.Millisecond
	warmFor     = time.Second // of load before anything is measured
)

// viewAge measures how old the loads of the other routers are that a router decides by.
func viewAge(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: fmt.Sprintf("Age of the view under %v requests/s in total", s.rate),
		Notes: []string{
			"time since each peer's loads were last heard, of every pair, sampled every " + sampleEvery.String(),
			"routers, clients and 8 simulated model servers (20 times as fast as a real one) in this process",
		},
		Columns: []string{"p50_ms", "p99_ms", "max_ms", "samples", "unheard", "requests", "failed", "late_p99_ms"},
	}
	m, err := startModels(ctx, 8, 20)
	if err != nil {
		return t, err
	}
	for _, n := range s.size.viewReplicas {
		s.progress.step("view, %d replicas", n)
		if err := viewOf(ctx, s, &t, m, n); err != nil {
			return t, errors.Join(fmt.Errorf("%d replicas: %w", n, err), m.stop())
		}
	}
	return t, m.stop()
}

func viewOf(ctx context.Context, s *session, t *table, m *models, n int) error {
	c, err := startLocal(ctx, s, n, m.backends)
	if err != nil {
		return err
	}
	var out outcome
	var ages []time.Duration
	unheard := 0
	loaded, done := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		defer done()
		out = load{rate: s.rate, over: warmFor + s.size.viewFor, prompts: prompts(500, 4)}.run(ctx, c.client, c.routers)
	})
	for sleep(loaded, warmFor); sleep(loaded, sampleEvery); {
		for _, node := range c.nodes {
			for _, member := range node.Members() {
				switch {
				case member.Self:
				case member.ViewAge == nil:
					unheard++
				default:
					ages = append(ages, time.Duration(*member.ViewAge*float64(time.Millisecond)))
				}
			}
		}
	}
	work.Wait()
	if out.failed > 0 {
		t.fails(out.example)
	}
	t.add(fmt.Sprintf("%d replicas", n), map[string]float64{
		"p50_ms": ms(percentile(ages, 50)), "p99_ms": ms(percentile(ages, 99)), "max_ms": ms(percentile(ages, 100)),
		"samples": float64(len(ages)), "unheard": float64(unheard), "requests": float64(out.sent), "failed": float64(out.failed),
		"late_p99_ms": ms(percentile(out.late, 99)),
	})
	return errors.Join(ctx.Err(), c.stop())
}
