package consensus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

func putN(i int) routing.Change {
	return routing.Change{PutBackends: []routing.Backend{backendN(i)}}
}

// The first proposal after a quiet time goes at once, what comes within the gap goes
// together at its end, and each gets a number of its own.
func TestProposalsShareEntries(t *testing.T) {
	bubble(t, 1, func(w *world) {
		r := w.start("a", options{expect: 1, gap: 500 * time.Millisecond})
		w.settled(10*time.Second, 1)
		time.Sleep(time.Second)
		began := time.Now()
		first, err := r.Propose(w.t.Context(), Proposal{Change: putN(5)})
		if err != nil || time.Since(began) > 100*time.Millisecond {
			w.t.Fatalf("the first: %v after %v", err, time.Since(began))
		}
		before := r.Status().LastIndex
		var all sync.WaitGroup
		numbers := make([]uint64, 10)
		for i := range numbers {
			all.Go(func() {
				e, err := r.Propose(w.t.Context(), Proposal{ID: fmt.Sprint(i), Change: putN(10 + i)})
				if err != nil {
					w.t.Error(err)
					return
				}
				numbers[i] = e.Number()
			})
		}
		all.Wait()
		if took := time.Since(began); took < 500*time.Millisecond || took > 700*time.Millisecond {
			w.t.Errorf("the others came after %v", took)
		}
		if entries := r.Status().LastIndex - before; entries != 1 {
			w.t.Errorf("%d entries for ten proposals", entries)
		}
		seen := map[uint64]bool{}
		for _, n := range numbers {
			seen[n] = n > first.Number() && n <= first.Number()+10
		}
		if len(seen) != 10 {
			w.t.Errorf("numbers %v after %d", numbers, first.Number())
		}
		again, err := r.Propose(w.t.Context(), Proposal{ID: "3", Change: putN(99)})
		if err != nil || again.Number() != numbers[3] || hasBackend(again, 99) {
			w.t.Errorf("a repetition got %v (%v), the first %d", again, err, numbers[3])
		}
	})
}

func TestProposalsRefused(t *testing.T) {
	bubble(t, 1, func(w *world) {
		all := w.startAll(five[:3], options{expect: 3, gap: 10 * time.Millisecond}, 3)
		leader := w.leaders()[0]
		propose := func(r *replica, p Proposal) error {
			_, err := r.Propose(w.t.Context(), p)
			return err
		}
		for _, r := range all {
			var other *NotLeaderError
			err := propose(r, Proposal{Change: putN(5)})
			if r != leader && (!errors.Is(err, ErrNotLeader) || !errors.As(err, &other) || other.Leader != leader.Status().Server) {
				w.t.Errorf("a follower says %v", err)
			}
		}
		two := []string{"gpu-0", "gpu-1"}
		if err := propose(leader, Proposal{Change: routing.Change{Drain: two}}); !errors.Is(err, ErrShrink) || !strings.Contains(err.Error(), "2 of 4 active backends, the limit is 1") {
			w.t.Errorf("shrinking: %v", err)
		}
		if err := propose(leader, Proposal{Change: routing.Change{Drain: two}, Force: true}); err != nil {
			w.t.Errorf("forced: %v", err)
		}
		if err := propose(leader, Proposal{Base: Base{1, 1}, Change: putN(6)}); !errors.Is(err, ErrConflict) {
			w.t.Errorf("old base: %v", err)
		}
		var wrong *routing.ChangeError
		if err := propose(leader, Proposal{Change: routing.Change{Drain: []string{"no"}}}); !errors.As(err, &wrong) {
			w.t.Errorf("wrong change: %v", err)
		}
		if err := propose(leader, Proposal{By: strings.Repeat("x", entryLimit)}); !errors.Is(err, ErrTooLarge) {
			w.t.Errorf("too large: %v", err)
		}
	})
}

// Proposals of one entry count together: ten that take one backend out each are ten.
func TestShrinkCountsTheWholeEntry(t *testing.T) {
	bubble(t, 1, func(w *world) {
		r := w.start("a", options{expect: 1, gap: 500 * time.Millisecond})
		w.settled(10*time.Second, 1)
		if _, err := r.Propose(w.t.Context(), Proposal{Change: putN(5)}); err != nil {
			w.t.Fatal(err)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		passed := 0
		for i := range 3 {
			all.Go(func() {
				_, err := r.Propose(w.t.Context(), Proposal{Change: routing.Change{RemoveBackends: []string{backendN(i).ID}}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					passed++
				case !errors.Is(err, ErrShrink):
					w.t.Error(err)
				}
			})
		}
		all.Wait()
		if passed != 1 {
			w.t.Errorf("%d of 3 passed", passed)
		}
	})
}

func TestProposalsAreBounded(t *testing.T) {
	bubble(t, 1, func(w *world) {
		r := w.start("a", options{expect: 1, gap: time.Hour})
		w.settled(10*time.Second, 1)
		if _, err := r.Propose(w.t.Context(), Proposal{Change: putN(5)}); err != nil {
			w.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		busy, given := 0, 0
		for range 2 * queueLength {
			all.Go(func() {
				_, err := r.Propose(ctx, Proposal{Change: putN(6)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, ErrBusy):
					busy++
				case errors.Is(err, context.Canceled) && !errors.Is(err, ErrUnknown):
					given++
				default:
					w.t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		all.Wait()
		if busy == 0 || given < queueLength || busy+given != 2*queueLength {
			w.t.Errorf("%d busy, %d given up", busy, given)
		}
	})
}

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for path, change := range map[string]func(*Config){
		"consensus.heartbeat":            func(c *Config) { c.Heartbeat = time.Millisecond },
		"consensus.election":             func(c *Config) { c.Election = c.Heartbeat / 2 },
		"consensus.commit":               func(c *Config) { c.Commit = 0 },
		"consensus.new_generation_after": func(c *Config) { c.NewGenerationAfter = time.Second },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := New(Default(), Deps{Expect: 2}); err == nil || !strings.HasPrefix(err.Error(), "cluster.expect: 2 is not 1, 3 or 5") {
		t.Errorf("expect 2: %v", err)
	}
}
