package sim

import (
	"context"
	"sync"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// Do carries out a plan in the background, beginning now. The function it returns waits until the last fault is healed;
// at the end of the scenario what is left of the plan is dropped.
func (w *World) Do(p Plan) (wait func()) {
	w.mu.Lock()
	offset := w.Elapsed()
	for _, s := range p {
		s.At += offset
		w.plan = append(w.plan, s)
	}
	w.mu.Unlock()
	var steps sync.WaitGroup
	for _, s := range p {
		steps.Add(1)
		w.background.Go(func() {
			defer steps.Done()
			w.step(s)
		})
	}
	return steps.Wait
}

// step is one fault from its beginning to its end.
func (w *World) step(s Step) {
	if !sleep(w.ctx, s.At) {
		return
	}
	w.Logf("%s", s)
	heal := w.apply(s)
	if heal == nil || s.For == 0 {
		return
	}
	if sleep(w.ctx, s.For) {
		w.Logf("healed: %s %v", s.Do, s.Hosts)
	}
	heal()
}

// apply begins a fault and returns how it is healed, nil if it cannot be.
func (w *World) apply(s Step) (heal func()) {
	a, b := w.group(s.Hosts), w.group(s.Other)
	link := func(f *simnet.Fault) func() { return f.Heal }
	switch s.Do {
	case Split:
		return link(w.Net.Split(a, b))
	case OneWay:
		return link(w.Net.OneWay(a, b))
	case BlackHole:
		return link(w.Net.BlackHole(a, b))
	case Datagrams:
		return link(w.Net.DropDatagrams(a, b))
	case Streams:
		return link(w.Net.DropStreams(a, b))
	case Slow:
		return link(w.Net.Slow(a, b, s.Delay, s.Loss))
	case Kill:
		return w.kill(s.Hosts)
	case Move:
		for _, p := range w.running(s.Hosts) {
			p.Move()
		}
	case Pause:
		for _, h := range a {
			h.Pause(s.For)
		}
	case Clock:
		for _, h := range a {
			h.JumpClock(s.Delay)
		}
	}
	return nil
}

// kill kills those that run; only they are started again.
func (w *World) kill(names []string) (heal func()) {
	victims := w.running(names)
	for _, p := range victims {
		p.Kill()
	}
	return func() {
		if w.ctx.Err() != nil {
			return
		}
		for _, p := range victims {
			p.Restart()
		}
	}
}

func (w *World) running(names []string) []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*Process
	for _, name := range names {
		for _, p := range w.processes {
			if p.Name == name && p.Running() {
				found = append(found, p)
			}
		}
	}
	return found
}

func (w *World) group(names []string) simnet.Group {
	var g simnet.Group
	for _, name := range names {
		g = append(g, w.Host(name))
	}
	return g
}

// sleep waits for d; false: ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
