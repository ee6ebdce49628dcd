package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	memoryStreams = 1000
	// memoryBuffer keeps the clients of many streams small.
	memoryBuffer = 4 << 10
	// memoryDialers bounds the connects under way, so that no listen queue overflows.
	memoryDialers = 32
	memorySamples = 5
	memoryWarmUp  = 300 * time.Millisecond
	memoryEvery   = 100 * time.Millisecond
	memoryTakes   = 6 * time.Second // about, for the progress line
)

// memoryLoad holds its streams open for some four seconds: long enough to open all of them
// through a slow proxy before the first one ends.
func memoryLoad() load {
	return load{
		name: fmt.Sprintf("%d streams", memoryStreams), bodySize: 4 << 10, conns: memoryStreams,
		answer: answer{events: 22, pause: 200 * time.Millisecond},
	}
}

// measureMemory starts a fresh process for the target, since one that has been under load keeps
// memory that would hide what streams need, warms it up, and compares its resident set with and
// without the streams.
func measureMemory(ctx context.Context, s *stable, name string) (row, error) {
	t, err := s.start(ctx, name)
	if err != nil {
		return row{}, err
	}
	defer t.stop()
	if err := warmUp(ctx, t); err != nil {
		return row{}, t.explain(fmt.Errorf("warm-up: %w", err))
	}
	script, err := newScript(memoryLoad())
	if err != nil {
		return row{}, err
	}
	pids := t.pids()
	before, err := resident(pids)
	if err != nil {
		return row{}, err
	}
	crowd := &crowd{script: script, dialing: make(chan struct{}, memoryDialers)}
	var wg sync.WaitGroup
	for i := range memoryStreams {
		wg.Go(func() { crowd.stream(ctx, t.addrs[0], i) })
	}
	size, err := crowd.weigh(ctx, pids, before)
	wg.Wait()
	out := row{Experiment: memory, Load: script.name, Target: name, StreamSize: size}
	out.Requests = int(crowd.ended.Load() - crowd.failed.Load())
	out.Failed = int(crowd.failed.Load())
	if failure, ok := crowd.failure.Load().(string); ok {
		out.Failure = failure
	}
	if err != nil && out.Failed == 0 {
		return row{}, err
	}
	return out, nil
}

func warmUp(ctx context.Context, t *target) error {
	s, err := newScript(load{bodySize: 4 << 10, conns: 16, answer: answer{events: 5}})
	if err != nil {
		return err
	}
	c, err := newCrew(ctx, s, t.addrs)
	if err != nil {
		return err
	}
	defer c.close()
	return c.work(ctx, memoryWarmUp).failure
}

// crowd is many streams at once, each on a connection of its own.
type crowd struct {
	script  script
	dialing chan struct{} // one token for each connect under way
	open    atomic.Int64  // streams that have had their first event
	ended   atomic.Int64
	failed  atomic.Int64
	failure atomic.Value // string, one example
}

func (w *crowd) stream(ctx context.Context, addr string, i int) {
	defer w.ended.Add(1)
	if err := w.once(ctx, addr, i); err != nil {
		w.failed.Add(1)
		w.failure.Store(err.Error())
	}
}

func (w *crowd) once(ctx context.Context, addr string, i int) error {
	w.dialing <- struct{}{}
	c, err := dial(ctx, addr, memoryBuffer)
	<-w.dialing
	if err != nil {
		return err
	}
	defer c.close()
	defer context.AfterFunc(ctx, c.close)()
	c.onFirst = func() { w.open.Add(1) }
	total := time.Duration(w.script.answer.events) * w.script.answer.pause
	if err := c.conn.SetDeadline(time.Now().Add(total + 2*slowest)); err != nil {
		return err
	}
	_, err = c.do(w.script.requests[i%len(w.script.requests)], w.script.want)
	return err
}

// weigh waits until all streams are open and returns the growth of the resident set per open
// stream, the largest of a few samples.
func (w *crowd) weigh(ctx context.Context, pids []int, before int64) (float64, error) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	var largest float64
	for samples := 0; samples < memorySamples; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
		opened, ended := w.open.Load(), w.ended.Load()
		if ended == memoryStreams {
			if samples > 0 {
				return largest, nil
			}
			return 0, errors.New("the streams ended before all of them were open")
		}
		if opened < memoryStreams {
			continue
		}
		now, err := resident(pids)
		if err != nil {
			return 0, err
		}
		largest = max(largest, float64(now-before)/float64(opened-ended))
		samples++
	}
	return largest, nil
}
