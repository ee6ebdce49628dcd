package sim

import (
	"runtime"
	"slices"
	"time"
)

const (
	look = 50 * time.Millisecond // virtual time between two looks at the rules
	poll = 10 * time.Millisecond // and between two of Soon
)

// rule is something that must hold all the time.
type rule struct {
	name   string
	holds  func() error
	broken bool
}

// counter is a count that is never negative, and zero when nobody asks for anything.
type counter struct {
	name string
	read func() int
	slow bool // it takes virtual time to read: looked at only in the end
}

// Always adds a rule: f is called every 20 virtual ms and fails the test with the first error. It must only read snapshots
// and atomics, or it changes what it watches.
func (w *World) Always(name string, f func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, &rule{name: name, holds: f})
}

// Idle adds a count that must never be negative, and zero within 10 virtual seconds after the scenario's last request.
func (w *World) Idle(name string, read func() int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, counter{name: name, read: read})
}

// Soon waits until f is true, looking every 10 virtual ms, and ends the scenario if that takes longer than limit. How long
// it took goes to the transcript and to the table over all seeds.
func (w *World) Soon(name string, limit time.Duration, f func() bool) {
	began := time.Now()
	for {
		w.stopIfFailed()
		if f() {
			break
		}
		if time.Since(began) >= limit {
			w.Fatalf("not within %v: %s", limit, name)
		}
		<-time.After(poll)
	}
	took := time.Since(began)
	w.waits.add(name, took)
	w.Logf("%s, after %v", name, took)
}

// observe looks at the rules until the end and keeps the watchdog content.
func (w *World) observe() {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-w.quiet:
			return
		case <-tick.C:
		}
		w.pulse.beat()
		w.lookAround()
		if w.Elapsed() > w.options.limit() {
			buf := make([]byte, 1<<20)
			w.Logf("%s", buf[:runtime.Stack(buf, true)])
			panic("sim: the scenario takes longer than " + w.options.limit().String() + " of virtual time: something waits for ever")
		}
	}
}

// lookAround checks every rule and count once.
func (w *World) lookAround() {
	w.mu.Lock()
	rules, idle, watching := slices.Clone(w.rules), slices.Clone(w.idle), w.watching
	w.mu.Unlock()
	if !watching {
		return
	}
	for _, r := range rules {
		if r.broken {
			continue
		}
		if err := r.holds(); err != nil {
			r.broken = true // only the observer reads and writes this
			w.Errorf("%s: %v", r.name, err)
		}
	}
	for _, c := range idle {
		if c.slow {
			continue
		}
		if n := c.read(); n < 0 {
			w.Errorf("%s is %d", c.name, n)
		}
	}
}

// checkIdle waits for every count to be zero.
func (w *World) checkIdle() {
	w.mu.Lock()
	idle := slices.Clone(w.idle)
	w.mu.Unlock()
	end := time.Now().Add(idleLimit)
	for _, c := range idle {
		for c.read() != 0 && time.Now().Before(end) {
			<-time.After(poll)
		}
		if n := c.read(); n != 0 {
			w.Errorf("%s is %d with nothing to do", c.name, n)
		}
	}
}
