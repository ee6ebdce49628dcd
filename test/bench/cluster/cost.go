package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	costReplicas = 3
	calmFor      = 5 * time.Second // after the start, for what a young cluster does
)

// cost measures what a router computes and exchanges with the others.
func cost(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: fmt.Sprintf("Cost of one of %d replicas, idle and at %v requests/s in total", costReplicas, s.rate),
		Notes: []string{
			"CPU in percent of one core: user and kernel time of the router's process; mean of the replicas, and the busiest",
			"KB/s that a replica sends to the others: payload of all their TCP and UDP sockets (raft, gRPC, gossip), no TLS; loads: the frames of the load mesh alone",
			"the backends are simulated model servers (20 times as fast as a real one) at addresses of their own, which answer all probes",
		},
		Columns: []string{"cpu_mean_%", "cpu_max_%", "peers_KB/s", "loads_KB/s", "requests", "failed", "late_p99_ms"},
	}
	for _, n := range s.size.costBackends {
		s.progress.step("cost, %d backends", n)
		if err := costOf(ctx, s, &t, n); err != nil {
			return t, fmt.Errorf("%d backends: %w", n, err)
		}
	}
	return t, nil
}

func costOf(ctx context.Context, s *session, t *table, backends int) error {
	m, err := startModels(ctx, backends, 20)
	if err != nil {
		return err
	}
	p, err := startProcesses(ctx, s, costReplicas, m.backends)
	if err != nil {
		return errors.Join(err, m.stop())
	}
	sleep(ctx, calmFor)
	idle, err := p.spend(ctx, s.size.costFor)
	if err == nil {
		t.add(fmt.Sprintf("%d backends, idle", backends), idle)
		var out outcome
		var busy map[string]float64
		var work sync.WaitGroup
		work.Go(func() {
			out = load{rate: s.rate, over: 2*warmFor + s.size.costFor, prompts: prompts(500, 4)}.run(ctx, p.client, p.routers())
		})
		sleep(ctx, warmFor)
		busy, err = p.spend(ctx, s.size.costFor)
		work.Wait()
		if err == nil {
			busy["requests"], busy["failed"], busy["late_p99_ms"] = float64(out.sent), float64(out.failed), ms(percentile(out.late, 99))
			t.add(fmt.Sprintf("%d backends, %v requests/s", backends, s.rate), busy)
		}
		if out.failed > 0 {
			t.fails(out.example)
		}
	}
	return errors.Join(err, ctx.Err(), p.stop(), m.stop())
}

// meter is what one router has spent since its start.
type meter struct {
	cpu         time.Duration
	sent, loads float64 // bytes
}

func (p *processes) meters(ctx context.Context) ([]meter, error) {
	var out []meter
	for _, r := range p.all {
		cpu, err1 := r.cpu()
		sent, err2 := r.traffic()
		loads, err3 := p.client.metric(ctx, r.router, "warmring_load_bytes_total", `direction="out"`)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		out = append(out, meter{cpu, float64(sent.Sent), loads})
	}
	return out, nil
}

// spend is what the routers spend during d.
func (p *processes) spend(ctx context.Context, d time.Duration) (map[string]float64, error) {
	began := time.Now()
	before, err := p.meters(ctx)
	if err != nil {
		return nil, err
	}
	sleep(ctx, d)
	after, err := p.meters(ctx)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	values := map[string]float64{}
	for i := range after {
		n := float64(len(after))
		cpu := 100 * (after[i].cpu - before[i].cpu).Seconds() / seconds
		values["cpu_mean_%"] += cpu / n
		values["cpu_max_%"] = max(values["cpu_max_%"], cpu)
		values["peers_KB/s"] += (after[i].sent - before[i].sent) / seconds / 1000 / n
		values["loads_KB/s"] += (after[i].loads - before[i].loads) / seconds / 1000 / n
	}
	return values, nil
}
