package consensus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/warmring/warmring/routing"
)

// attempt is a compare-and-set on the epoch's number; 0 takes any.
type attempt struct{ base uint64 }

// result is what came of it. An unknown one may be applied at any later time, or
// never.
type result struct {
	number   uint64
	conflict bool
	unknown  bool
}

// register is the epoch's number as one process would keep it.
func register() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{uint64(1)} },
		Step: func(state, input, output any) []any {
			now, in, out := state.(uint64), input.(attempt), output.(result)
			fits := in.base == 0 || in.base == now
			switch {
			case out.unknown && fits:
				return []any{now, now + 1}
			case out.unknown, out.conflict && !fits:
				return []any{now}
			case !out.conflict && fits && out.number == now+1:
				return []any{now + 1}
			}
			return nil
		},
		Equal: func(a, b any) bool { return a.(uint64) == b.(uint64) },
	}).ToModel()
}

// history is what clients saw.
type history struct {
	mu  sync.Mutex // guards ops
	ops []porcupine.Operation
}

func (h *history) add(client int, in attempt, called time.Time, out result) {
	returned := time.Now().UnixNano()
	if out.unknown {
		returned = time.Now().Add(24 * time.Hour).UnixNano()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: called.UnixNano(), Output: out, Return: returned})
}

// client proposes to whoever it believes to lead, until the time is up.
func (h *history) client(w *world, id int, random *rand.Rand, until time.Time) {
	var seen uint64 = 1
	for n := 0; time.Now().Before(until); n++ {
		time.Sleep(time.Duration(50+random.IntN(400)) * time.Millisecond)
		all := w.all()
		r := all[random.IntN(len(all))]
		if r.Status().Role != Leader {
			continue
		}
		in := attempt{}
		p := Proposal{ID: fmt.Sprintf("c%d-%d", id, n), Change: routing.Change{PutBackends: []routing.Backend{backendN(id)}}}
		if random.IntN(2) == 0 {
			in.base, p.Base = seen, Base{1, seen}
		}
		called := time.Now()
		ctx, cancel := timeout(w.t, time.Duration(200+random.IntN(1500))*time.Millisecond)
		e, err := r.Propose(ctx, p)
		cancel()
		switch {
		case err == nil:
			seen = e.Number()
			h.add(id, in, called, result{number: seen})
		case errors.Is(err, ErrConflict):
			h.add(id, in, called, result{conflict: true})
			if e := r.epoch.Load(); e != nil {
				seen = e.Number()
			}
		case errors.Is(err, ErrUnknown):
			h.add(id, in, called, result{unknown: true})
		}
	}
}

func TestProposalsAreLinearizable(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var h history
			bubble(t, seed, func(w *world) { h.run(w, seed) })
			// Outside of the bubble, where the limit is real time: the search is exponential in
			// the unknown outcomes, so a rare history stays undecided.
			switch porcupine.CheckOperationsTimeout(register(), h.ops, 3*time.Second) {
			case porcupine.Illegal:
				t.Errorf("the history of %d proposals is not linearizable", len(h.ops))
			case porcupine.Ok:
			case porcupine.Unknown:
				t.Logf("the history of %d proposals was not decided", len(h.ops))
			}
		})
	}
}

// run lets four clients propose while one replica after another is cut off.
func (h *history) run(w *world, seed uint64) {
	w.startAll(five[:3], options{expect: 3, gap: 20 * time.Millisecond}, 3)
	random := rand.New(rand.NewPCG(seed, 3))
	until := time.Now().Add(12 * time.Second)
	var clients sync.WaitGroup
	for id := range 4 {
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		clients.Go(func() { h.client(w, id, own, until) })
	}
	for time.Now().Before(until) {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		host := five[random.IntN(3)]
		if l := w.leaders(); len(l) > 0 && random.IntN(3) > 0 {
			host = l[0].host.Name()
		}
		heal := w.split([]string{host}, others(five[:3], host))
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		heal()
	}
	clients.Wait()
	if len(h.ops) < 5 {
		w.t.Errorf("only %d proposals", len(h.ops))
	}
}

// The model can fail.
func TestRegisterRefusesALostUpdate(t *testing.T) {
	op := func(client int, call int64, in attempt, out result) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: call + 5}
	}
	good := []porcupine.Operation{op(0, 0, attempt{}, result{number: 2}), op(1, 10, attempt{base: 2}, result{number: 3})}
	lost := []porcupine.Operation{op(0, 0, attempt{}, result{number: 2}), op(1, 10, attempt{base: 1}, result{number: 2})}
	if !porcupine.CheckOperations(register(), good) || porcupine.CheckOperations(register(), lost) {
		t.Error("the model does not tell a lost update")
	}
}
