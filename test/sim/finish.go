package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What the end may take, in virtual time.
const (
	idleLimit = 10 * time.Second // for counts to return to zero
	stopLimit = time.Minute      // for a process to stop
	linger    = 15 * time.Second // for what libraries leave running for a while, such as probes with a timeout
)

// finish stops everything that the scenario started. Whatever still runs then makes the bubble panic with its stack.
func (w *World) finish() {
	w.cancel()
	w.background.Wait()
	if !w.Failed() {
		w.checkIdle()
	}
	w.mu.Lock()
	w.watching = false
	processes, atEnd := slices.Clone(w.processes), slices.Clone(w.atEnd)
	w.mu.Unlock()
	var stopping sync.WaitGroup
	for _, p := range processes {
		stopping.Go(p.Stop)
	}
	stopping.Wait()
	for _, f := range slices.Backward(atEnd) {
		f()
	}
	for _, h := range w.Net.Hosts() {
		h.Kill() // closes connections that were accepted and never closed
	}
	<-time.After(linger)
	close(w.quiet)
	w.observer.Wait()
	if w.Failed() && w.options.hooks == nil {
		w.explain()
	}
}

// collect keeps what is to be seen at the moment of the first failure, before the end changes it.
func (w *World) collect() {
	w.mu.Lock()
	describe, processes := slices.Clone(w.describe), slices.Clone(w.processes)
	w.mu.Unlock()
	var b strings.Builder
	for _, d := range describe {
		b.WriteString(d())
	}
	for _, p := range processes {
		if tail := p.log.tail(); tail != "" {
			fmt.Fprintf(&b, "--- last lines of %s\n%s", p.Name, tail)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evidence = b.String()
}

// explain says what somebody needs who looks into a failure.
func (w *World) explain() {
	w.mu.Lock()
	plan, evidence := w.plan, w.evidence
	w.mu.Unlock()
	test, _, _ := strings.Cut(w.t.Name(), "/seed=")
	_, _ = fmt.Fprintf(w.t.Output(), "%splan:  %s\nsent:  %d, signature %016x\nagain: SIM_SEED=%d go test %s -run '^%s$' -count=20\n",
		evidence, plan, w.Net.Sends(), w.Net.Signature(), w.Seed, here(), test)
}
