package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
)

const (
	lookEvery  = time.Millisecond      // how often all epochs are looked at
	lostAfter  = 10 * time.Second      // an epoch that is not everywhere by then counts as lost
	writePause = 30 * time.Millisecond // between two writes
	epochGap   = 10 * time.Millisecond // fleet.epoch_gap here; 500 ms by default
)

// epochsVisible measures how long it takes until every router has the epoch of a write.
func epochsVisible(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: "Epoch visible everywhere",
		Notes: []string{
			"from the start of an admin write, and from its answer (0: everywhere before the answer), to the last router's epoch",
			"all routers in this process, on loopback sockets; each write through the next router; epochs looked at every " + lookEvery.String(),
			"fleet.epoch_gap is " + epochGap.String() + " here: by default a write may wait up to 500 ms for its turn",
		},
		Columns: []string{"start_p50_ms", "start_p99_ms", "start_max_ms", "answer_p50_ms", "answer_p99_ms", "writes", "lost"},
	}
	m, err := startModels(ctx, 3, 1)
	if err != nil {
		return t, err
	}
	for _, n := range s.size.epochReplicas {
		s.progress.step("epochs, %d replicas", n)
		err := epochsOf(ctx, s, &t, m, n)
		if errors.Is(err, errNotSettled) && ctx.Err() == nil { // a busy machine cannot carry them all: the others' figures still count
			t.fails(fmt.Sprintf("%d replicas: %v", n, err))
			t.add(fmt.Sprintf("%d replicas", n), map[string]float64{"lost": float64(s.size.writes)})
			continue
		}
		if err != nil {
			return t, errors.Join(fmt.Errorf("%d replicas: %w", n, err), m.stop())
		}
	}
	return t, m.stop()
}

func epochsOf(ctx context.Context, s *session, t *table, m *models, n int) error {
	c, err := startLocal(ctx, s, n, m.backends, func(cfg *node.Config) { cfg.Fleet.EpochGap = epochGap })
	if err != nil {
		return err
	}
	var fromStart, fromAnswer []time.Duration
	lost := 0
	for i := range s.size.writes {
		start, answer, err := c.write(ctx, i)
		switch {
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), c.stop())
		case err != nil:
			lost++
			t.fails(fmt.Sprintf("%d replicas, write %d: %v", n, i, err))
		default:
			fromStart, fromAnswer = append(fromStart, start), append(fromAnswer, answer)
		}
		sleep(ctx, writePause)
	}
	t.add(fmt.Sprintf("%d replicas", n), map[string]float64{
		"start_p50_ms": ms(percentile(fromStart, 50)), "start_p99_ms": ms(percentile(fromStart, 99)), "start_max_ms": ms(percentile(fromStart, 100)),
		"answer_p50_ms": ms(percentile(fromAnswer, 50)), "answer_p99_ms": ms(percentile(fromAnswer, 99)),
		"writes": float64(len(fromStart)), "lost": float64(lost),
	})
	return c.stop()
}

// write changes a weight through the i-th router and returns how long after the start, and after the answer, all routers
// had the epoch.
func (l *local) write(ctx context.Context, i int) (start, answer time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	type answered struct {
		epoch string
		at    time.Time
		err   error
	}
	answers := make(chan answered, 1)
	began := time.Now()
	l.group.Go(func() error {
		var w admin.Written
		err := l.client.setWeight(ctx, l.routers[i%len(l.routers)], "gpu-0", 1+float64(i+1)/1024, &w)
		answers <- answered{w.Epoch, time.Now(), err}
		return nil
	})
	before := l.nodes[0].Epoch().Number()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var everywhere time.Time
	var a answered
	for everywhere.IsZero() || a.at.IsZero() {
		select {
		case a = <-answers:
			if a.err != nil {
				return 0, 0, a.err
			}
		case now := <-tick.C:
			if everywhere.IsZero() && l.allAfter(before) {
				everywhere = now
			}
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("not everywhere after %s: %d", lostAfter, l.numbers())
		}
	}
	if want := fmt.Sprintf("1.%d", before+1); a.epoch != want {
		return 0, 0, fmt.Errorf("epoch %s, want %s: somebody else wrote too", a.epoch, want)
	}
	return everywhere.Sub(began), max(0, everywhere.Sub(a.at)), nil
}

func (l *local) allAfter(number uint64) bool {
	for _, n := range l.nodes {
		if n.Epoch().Number() <= number {
			return false
		}
	}
	return true
}

func (l *local) numbers() []uint64 {
	var out []uint64
	for _, n := range l.nodes {
		out = append(out, n.Epoch().Number())
	}
	return out
}
