package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// World is one scenario with one seed, inside its bubble. Its methods may be called from the scenario's goroutine; those
// that fail a test, and Logf, from any.
type World struct {
	Net  *simnet.Network
	Seed uint64
	Rand *rand.Rand // for the scenario's own choices

	t       *testing.T
	options Options
	waits   *table
	began   time.Time
	pulse   *pulse

	ctx        context.Context // ends with the scenario
	cancel     context.CancelFunc
	background sync.WaitGroup // plans, clients
	observer   sync.WaitGroup
	quiet      chan struct{} // closed when the observer is to end

	mu        sync.Mutex // guards all below
	plan      Plan
	rules     []*rule
	watching  bool // whether the rules still hold
	idle      []counter
	processes []*Process
	atEnd     []func()
	failed    bool
	describe  []func() string // what to tell about the moment of a failure
	evidence  string          // from that moment
}

func newWorld(t *testing.T, o Options, seed uint64, waits *table, p *pulse) *World {
	t.Helper()
	w := &World{
		Net: o.network(seed), Seed: seed, Rand: rand.New(rand.NewPCG(seed, 0)),
		t: t, options: o, waits: waits, began: time.Now(), pulse: p, quiet: make(chan struct{}), watching: true,
	}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	w.observer.Go(w.observe)
	return w
}

// Context ends with the scenario.
func (w *World) Context() context.Context { return w.ctx }

// Elapsed is the virtual time since the scenario began.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// Host returns the host of a name, and adds it if there is none.
func (w *World) Host(name string) *simnet.Host { return w.Net.Host(name) }

// Logf adds a line to the transcript, with the virtual time.
func (w *World) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.t.Output(), "%9.3fs %s\n", w.Elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// Errorf fails the test and goes on; the next Soon ends it.
func (w *World) Errorf(format string, args ...any) {
	text := fmt.Sprintf("seed=%d at %.3fs: %s", w.Seed, w.Elapsed().Seconds(), fmt.Sprintf(format, args...))
	w.mu.Lock()
	first := !w.failed
	w.failed = true
	w.mu.Unlock()
	if first {
		w.collect()
	}
	if h := w.options.hooks; h != nil && h.failed != nil {
		h.failed(text)
		return
	}
	w.t.Error("FAIL " + text)
}

// Fatalf fails the test and ends the scenario. Only the scenario's own goroutine may call it.
func (w *World) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	w.stopIfFailed()
}

// Failed says whether something has failed.
func (w *World) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *World) stopIfFailed() {
	if !w.Failed() {
		return
	}
	if w.options.hooks != nil {
		panic(over{}) // Options.run takes it
	}
	w.t.FailNow()
}

// AtEnd is called when the scenario is over, last in first out, after its processes were stopped.
func (w *World) AtEnd(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.atEnd = append(w.atEnd, f)
}
