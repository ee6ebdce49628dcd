package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing"
)

// feed applies commands to a machine as raft does.
type fed struct {
	*machine
	index uint64
}

func newFed() *fed { return &fed{machine: &machine{committed: func() {}}} }

func (f *fed) enter(tb fataler, c command) any {
	raw, err := c.encode()
	if err != nil {
		tb.Fatal(err)
	}
	f.index++
	return f.Apply(&raft.Log{Index: f.index, Data: raw})
}

type fataler interface{ Fatal(args ...any) }

func founded1(tb fataler) command {
	e, err := firstFleet()
	if err != nil {
		tb.Fatal(err)
	}
	return command{Found: &founding{Cluster: "X", Image: e.Image()}}
}

// memorySink is a snapshot on its way.
type memorySink struct{ bytes.Buffer }

func (*memorySink) ID() string    { return "1" }
func (*memorySink) Cancel() error { return errors.New("cancelled") }
func (*memorySink) Close() error  { return nil }

func (f *fed) reload(tb fataler) *fed {
	snapshot, err := f.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	var to memorySink
	if err := snapshot.Persist(&to); err != nil {
		tb.Fatal(err)
	}
	snapshot.Release()
	next := newFed()
	next.index = f.index
	if err := next.Restore(io.NopCloser(&to)); err != nil {
		tb.Fatal(err)
	}
	return next
}

func drawProposal(t *rapid.T) proposed {
	p := proposed{ID: fmt.Sprint("r", rapid.IntRange(0, 20).Draw(t, "id")), By: "test"}
	n := rapid.IntRange(0, 8).Draw(t, "backend")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0, 1:
		b := backendN(n)
		b.Weight = float64(rapid.IntRange(1, 5).Draw(t, "weight"))
		b.State = routing.State(rapid.IntRange(0, 2).Draw(t, "state"))
		p.Change.PutBackends = []routing.Backend{b}
	case 2:
		p.Change.RemoveBackends = []string{backendN(n).ID}
	case 3:
		p.Change.Drain = []string{backendN(n).ID}
	default:
		p.Base = Base{1, uint64(rapid.IntRange(0, 12).Draw(t, "base"))}
		p.Change.PutBackends = []routing.Backend{backendN(n)}
	}
	return p
}

// The same proposals make the same state, one by one, in batches and through
// snapshots.
func TestSameLogSameDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		proposals := rapid.SliceOfN(rapid.Custom(drawProposal), 1, 40).Draw(t, "proposals")
		single, batched := newFed(), newFed()
		single.enter(t, founded1(t))
		batched.enter(t, founded1(t))
		for _, p := range proposals {
			single.enter(t, command{Batch: []proposed{p}})
			if rapid.IntRange(0, 9).Draw(t, "reload") == 0 {
				single = single.reload(t)
			}
		}
		for rest := proposals; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			batched.enter(t, command{Batch: rest[:n]})
			rest = rest[n:]
		}
		a, b := single.epoch, batched.epoch
		if a.ID() != b.ID() || a.Digest() != b.Digest() || !slices.Equal(single.done, batched.done) {
			t.Fatalf("%s %x and %s %x", a.ID(), a.Digest(), b.ID(), b.Digest())
		}
	})
}

func TestMachine(t *testing.T) {
	f := newFed()
	if out := f.enter(t, command{Batch: []proposed{{ID: "a"}}}).([]outcome); !errors.Is(out[0].err, ErrNoQuorum) {
		t.Errorf("before the founding: %v", out[0].err)
	}
	if err := f.enter(t, founded1(t)); err != nil {
		t.Fatal(err)
	}
	if err, _ := f.enter(t, founded1(t)).(error); err == nil {
		t.Error("founded twice")
	}
	if err, _ := f.enter(t, command{Abort: true}).(error); err == nil {
		t.Error("given up after it was founded")
	}
	put := proposed{ID: "a", Base: Base{1, 1}, Change: routing.Change{PutBackends: []routing.Backend{backendN(5)}}}
	out := f.enter(t, command{Batch: []proposed{put, put, {ID: "b", Base: Base{1, 1}}, {ID: "c", Change: routing.Change{RemoveBackends: []string{"no"}}}}}).([]outcome)
	var wrong *routing.ChangeError
	switch {
	case out[0].err != nil || out[0].epoch.ID() != "1.2":
		t.Errorf("first: %v", out[0])
	case out[1].err != nil || out[1].epoch.ID() != "1.2":
		t.Errorf("repeated: %v", out[1])
	case !errors.Is(out[2].err, ErrConflict):
		t.Errorf("old base: %v", out[2])
	case !errors.As(out[3].err, &wrong):
		t.Errorf("wrong change: %v", out[3])
	}
	for i := range 2 * requestsKept {
		f.enter(t, command{Batch: []proposed{{ID: fmt.Sprint(i)}}})
	}
	if len(f.done) != requestsKept || len(f.past) != epochsKept {
		t.Errorf("it keeps %d requests and %d epochs", len(f.done), len(f.past))
	}
	for _, raw := range []string{`{"v":2,"batch":[{"id":"x"}]}`, `{`, ``} {
		f.index++
		before := f.epoch
		if err, _ := f.Apply(&raft.Log{Index: f.index, Data: []byte(raw)}).(error); err == nil || f.epoch != before {
			t.Errorf("entry %q was taken", raw)
		}
	}
}

func TestAbortedFoundingStaysAborted(t *testing.T) {
	f := newFed()
	f.enter(t, command{Abort: true})
	f = f.reload(t)
	if err, _ := f.enter(t, founded1(t)).(error); err == nil {
		t.Error("founded after it was given up")
	}
	if epoch, aborted := f.now(); epoch != nil || !aborted {
		t.Errorf("epoch %v, aborted %v", epoch, aborted)
	}
}

func TestShrink(t *testing.T) {
	from, err := firstFleet()
	if err != nil {
		t.Fatal(err)
	}
	var c routing.Change
	for i := range 10 {
		c.PutBackends = append(c.PutBackends, backendN(i))
	}
	from, err = from.Apply(c) // ten active
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{0: true, 1: true, 2: true, 3: false, 10: false} {
		var c routing.Change
		for i := range n {
			c.Drain = append(c.Drain, backendN(i).ID)
		}
		to, err := from.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkShrink(from, to, 0.2); (err == nil) != want || err != nil && !errors.Is(err, ErrShrink) {
			t.Errorf("drain %d of 10: %v", n, err)
		}
	}
	one, err := from.Apply(routing.Change{RemoveBackends: []string{backendN(0).ID}})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkShrink(from, one, 0.001); err != nil {
		t.Errorf("one may always go: %v", err)
	}
}
