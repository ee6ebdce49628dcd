package sim

import (
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pulse is what a bubble and its watchdog share: nothing but atomics, since a lock or a channel would tie them together.
type pulse struct {
	beats  atomic.Int64
	bubble atomic.Pointer[string] // as stacks name it
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+`)

// enter notes in which bubble the caller is.
func (p *pulse) enter() {
	var buf [128]byte
	name := bubbleName.FindString(string(buf[:runtime.Stack(buf[:], false)]))
	p.bubble.Store(&name)
}

// beat says that virtual time moves.
func (p *pulse) beat() { p.beats.Add(1) }

// looks is how many times a watchdog looks in the time of its patience. A machine that stands still for all of that time
// takes one of them.
const looks = 10

// watch calls stuck with the culprits' stacks whenever there was no beat for that long in real time, until stop is called.
// It must be called outside of the bubble.
func (p *pulse) watch(patience time.Duration, stuck func(string)) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(patience / looks)
		defer tick.Stop()
		still := 0
		for last := int64(-1); ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			still++
			now, name := p.beats.Load(), p.bubble.Load()
			if name == nil || now != last {
				still, last = 0, now
			}
			if still == looks {
				stuck(culprits(allStacks(), *name))
				still = 0
			}
		}
	})
	return func() { close(done); watching.Wait() }
}

// culprits are those goroutines of a bubble that do not wait for something in it: they hold a lock's waiter, a socket or
// the processor, and keep time from moving. The runtime marks the others as durable.
func culprits(stacks, bubble string) string {
	var out []string
	for g := range strings.SplitSeq(stacks, "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		_, rest, in := strings.Cut(head, bubble)
		if in && (strings.HasPrefix(rest, "]") || strings.HasPrefix(rest, ",")) && !strings.Contains(head, "(durable)") {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// allStacks is what every goroutine of the process does.
func allStacks() string {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= 1<<28 {
			return string(buf[:n])
		}
	}
}
