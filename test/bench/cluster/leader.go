package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	leaderReplicas = 3
	leaderRate     = 100 // requests a second, on the routers that stay
	writeRetry     = 20 * time.Millisecond
)

// leaderKilled measures how long nobody can change the fleet after the leader has died.
func leaderKilled(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: fmt.Sprintf("kill -9 of the leader of %d replicas, until the next epoch is committed", leaderReplicas),
		Notes: []string{
			"to the answer of an admin write that another router takes at once; routers are processes",
			fmt.Sprintf("failed: of the requests (%d a second) on the routers that stay, from before the kill to after the epoch", leaderRate),
			"after each kill a new router joins, and the next kill waits until it votes: rejoin",
		},
		Columns: []string{"p50_s", "max_s", "kills", "rejoin_p50_s", "rejoin_max_s", "requests", "failed"},
	}
	m, err := startModels(ctx, 4, 20)
	if err != nil {
		return t, err
	}
	p, err := startProcesses(ctx, s, leaderReplicas, m.backends)
	if err != nil {
		return t, errors.Join(err, m.stop())
	}
	var took, rejoined []time.Duration
	var all outcome
	for i := range s.size.kills {
		s.progress.step("leader, kill %d of %d", i+1, s.size.kills)
		until, out, err := p.killLeader(ctx, i)
		all.merge(out)
		if err != nil {
			return t, errors.Join(err, p.stop(), m.stop())
		}
		took = append(took, until)
		began := time.Now()
		if err := errors.Join(p.add(ctx), settle(ctx, p.client, p.routers(), voters(leaderReplicas))); err != nil {
			return t, errors.Join(err, p.stop(), m.stop())
		}
		rejoined = append(rejoined, time.Since(began))
	}
	if all.failed > 0 {
		t.fails(all.example)
	}
	t.add(fmt.Sprintf("%d replicas", leaderReplicas), map[string]float64{
		"p50_s": percentile(took, 50).Seconds(), "max_s": percentile(took, 100).Seconds(), "kills": float64(len(took)),
		"rejoin_p50_s": percentile(rejoined, 50).Seconds(), "rejoin_max_s": percentile(rejoined, 100).Seconds(),
		"requests": float64(all.sent), "failed": float64(all.failed),
	})
	return t, errors.Join(p.stop(), m.stop())
}

// killLeader returns how long after the kill the next epoch was committed, and how the others' requests ended meanwhile.
func (p *processes) killLeader(ctx context.Context, i int) (took time.Duration, out outcome, err error) {
	leader, err := leaderOf(ctx, p.client, p.routers())
	if err != nil {
		return 0, out, err
	}
	others := p.routers()
	others = append(others[:leader:leader], others[leader+1:]...)
	loaded, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		out = load{rate: leaderRate, over: settleLimit, seed: uint64(i), prompts: prompts(100, 4)}.run(loaded, p.client, others)
	})
	sleep(ctx, warmFor)
	began := time.Now()
	err = p.kill(leader)
	if err == nil {
		err = p.writeAgain(ctx, others[0], i)
		took = time.Since(began)
	}
	sleep(ctx, warmFor)
	stop()
	work.Wait()
	return took, out, err
}

// writeAgain writes until it succeeds. That the outcome of a write is unknown does no harm: it says what is, not by how much.
func (p *processes) writeAgain(ctx context.Context, r router, i int) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		err := p.client.setWeight(ctx, r, "gpu-0", 1+float64(i+1)/1024, nil)
		if err == nil || !sleep(ctx, writeRetry) {
			return err
		}
	}
}
