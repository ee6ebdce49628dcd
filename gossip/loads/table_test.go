package loads

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func busy(id string, inflight int) Entry {
	return Entry{ID: id, Incarnation: 1, InFlight: inflight, Prefill: int64(100 * inflight)}
}

func key(id string) Key { return Key{id, 1} }

func merge(t *testing.T, table *Table, f Frame) []Key {
	t.Helper()
	changed, err := table.Merge(f, start)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestSumsOverOrigins(t *testing.T) {
	table := NewTable()
	a, b := NewPublisher("a"), NewPublisher("b")
	a.Set(Entry{ID: "x", Incarnation: 1, InFlight: 2, Prefill: 30, Verdict: Ejected, Succeeded: true, Probe: Ready})
	b.Set(Entry{ID: "x", Incarnation: 1, InFlight: 3, Prefill: 40, Verdict: Refused, Succeeded: true, Probe: Dead})
	b.Set(Entry{ID: "x", Incarnation: 2, InFlight: 9})
	merge(t, table, a.Whole())
	if changed := merge(t, table, b.Whole()); len(changed) != 2 {
		t.Errorf("changed %v", changed)
	}
	want := []Sum{
		{Key: Key{"x", 1}, InFlight: 5, Prefill: 70, Ejected: 1, Refused: 1, Succeeded: 2, Ready: 1, Dead: 1},
		{Key: Key{"x", 2}, InFlight: 9},
		{Key: Key{"y", 1}},
	}
	if diff := cmp.Diff(want, table.Sums([]Key{{"x", 1}, {"x", 2}, {"y", 1}}, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]Probe{"a": Ready, "b": Dead}, table.ProbesOf(key("x"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if changed := table.Drop("b"); len(changed) != 2 {
		t.Errorf("changed %v", changed)
	}
	want = []Sum{{Key: Key{"x", 1}, InFlight: 2, Prefill: 30, Ejected: 1, Succeeded: 1, Ready: 1}}
	if diff := cmp.Diff(want, table.All(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDeltas(t *testing.T) {
	table, p := NewTable(), NewPublisher("a")
	p.Set(busy("x", 1))
	p.Set(busy("y", 1))
	first := p.Whole()
	merge(t, table, first)
	p.Set(busy("x", 2))
	lost := p.Delta(first.Sequence)
	p.Set(busy("y", 2))
	next := p.Delta(lost.Sequence)
	if len(next.Entries) != 1 || next.Entries[0].ID != "y" {
		t.Fatalf("%+v", next)
	}
	if _, err := table.Merge(next, start); !errors.Is(err, ErrGap) {
		t.Fatal(err)
	}
	if sum := table.Sums([]Key{key("y")}, nil)[0]; sum.InFlight != 1 {
		t.Errorf("a frame after a gap was taken in: %+v", sum)
	}
	// A whole frame heals it, and what is late is ignored then.
	merge(t, table, p.Whole())
	for _, f := range []Frame{lost, first, next, p.Delta(p.Whole().Sequence)} {
		if changed := merge(t, table, f); len(changed) != 0 {
			t.Errorf("%+v changed %v", f, changed)
		}
	}
	// A delta that begins earlier than necessary is as good.
	p.Set(busy("x", 0))
	if changed := merge(t, table, p.Delta(first.Sequence)); !slices.Equal(changed, []Key{key("x")}) {
		t.Errorf("changed %v", changed)
	}
	if all := table.All(nil); len(all) != 1 {
		t.Errorf("a model server at rest is kept: %+v", all)
	}
}

func TestExpire(t *testing.T) {
	table, p := NewTable(), NewPublisher("a")
	p.Set(busy("x", 1))
	merge(t, table, p.Whole())
	at := start.Add(time.Second)
	if _, err := table.Merge(p.Delta(p.Whole().Sequence), at); err != nil { // a sign of life
		t.Fatal(err)
	}
	// What does not fit is no sign of life: a table that cannot follow must not age
	// unseen.
	if _, err := table.Merge(Frame{Origin: "a", Sequence: 99, Sum: 1}, at.Add(time.Second)); !errors.Is(err, ErrGap) {
		t.Fatal(err)
	}
	if got := table.Age(at.Add(time.Second)); got["a"] != time.Second || len(got) != 1 {
		t.Errorf("%v", got)
	}
	if changed := table.Expire(at.Add(1500*time.Millisecond), 1500*time.Millisecond); len(changed) != 0 {
		t.Errorf("too early: %v", changed)
	}
	if changed := table.Expire(at.Add(1501*time.Millisecond), 1500*time.Millisecond); !slices.Equal(changed, []Key{key("x")}) {
		t.Errorf("changed %v", changed)
	}
	if len(table.origins)+len(table.sums) != 0 {
		t.Errorf("%v, %v", table.origins, table.sums)
	}
}

func TestMergeRefuses(t *testing.T) {
	table := NewTable()
	for name, f := range map[string]Frame{
		"no origin":   {},
		"no id":       {Origin: "a", Entries: []Entry{{InFlight: 1}}},
		"negative":    {Origin: "a", Entries: []Entry{busy("x", -1)}},
		"too large":   {Origin: "a", Entries: []Entry{busy("x", 1<<31)}},
		"verdict":     {Origin: "a", Entries: []Entry{{ID: "x", Verdict: 3}}},
		"probe":       {Origin: "a", Entries: []Entry{{ID: "x", Probe: 3}}},
		"twice":       {Origin: "a", Entries: []Entry{busy("x", 1), busy("x", 2)}},
		"not in line": {Origin: "a", Entries: []Entry{busy("y", 1), busy("x", 2)}},
	} {
		if _, err := table.Merge(f, start); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := NewPublisher("large")
	for i := range MaxEntries + 1 {
		large.Set(busy(strconv.Itoa(i), 1))
	}
	f := large.Whole()
	if len(f.Entries) != MaxEntries {
		t.Errorf("published %d", len(f.Entries))
	}
	merge(t, table, f)
	one := Frame{Origin: "large", Sequence: f.Sequence + 1, Entries: []Entry{busy("z", 1)}}
	one.Sum = f.Sum + one.Entries[0].mark()
	if _, err := table.Merge(one, start); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	for i := range MaxOrigins - 1 {
		merge(t, table, NewPublisher(fmt.Sprint(i)).Whole())
	}
	if _, err := table.Merge(NewPublisher("more").Whole(), start); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
}

// drawEntry is one of a few model servers in any condition.
func drawEntry(rt *rapid.T) Entry {
	return Entry{
		ID: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "id"), Incarnation: rapid.Uint64Range(1, 2).Draw(rt, "incarnation"),
		InFlight: rapid.IntRange(0, 2).Draw(rt, "inflight"), Prefill: rapid.Int64Range(0, 1).Draw(rt, "prefill"),
		Verdict: Verdict(rapid.IntRange(0, 2).Draw(rt, "verdict")), Succeeded: rapid.Bool().Draw(rt, "succeeded"),
		Probe: Probe(rapid.IntRange(0, 2).Draw(rt, "probe")),
	}
}

// history is frames of several origins, and every state their tables had.
type history struct {
	publishers map[string]*Publisher
	states     map[string]map[uint64]map[Key]Entry
	frames     []Frame
}

func drawHistory(rt *rapid.T) *history {
	h := &history{publishers: map[string]*Publisher{}, states: map[string]map[uint64]map[Key]Entry{}}
	cursors := map[string][2]uint64{}
	for _, name := range []string{"a", "b", "c"} {
		h.publishers[name] = NewPublisher(name)
		h.states[name] = map[uint64]map[Key]Entry{0: {}}
	}
	for range rapid.IntRange(1, 40).Draw(rt, "steps") {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "origin")
		p := h.publishers[name]
		switch rapid.IntRange(0, 3).Draw(rt, "step") {
		case 0:
			h.frames = append(h.frames, p.Whole())
		case 1: // one of two peers at different speeds
			peer := rapid.IntRange(0, 1).Draw(rt, "peer")
			c := cursors[name]
			f := p.Delta(c[peer])
			c[peer] = f.Sequence
			cursors[name] = c
			h.frames = append(h.frames, f)
		default:
			p.Set(drawEntry(rt))
			h.states[name][p.version] = p.state()
		}
	}
	return h
}

func (p *Publisher) state() map[Key]Entry {
	out := map[Key]Entry{}
	for key, e := range p.entries {
		if !e.resting() {
			out[key] = e.Entry
		}
	}
	return out
}

// recompute checks the sums against the entries.
func (t *Table) recompute(tb rapid.TB) {
	tb.Helper()
	want := map[Key]*total{}
	for _, o := range t.origins {
		digest := uint64(0)
		for key, e := range o.entries {
			if want[key] == nil {
				want[key] = &total{Sum: Sum{Key: key}}
			}
			want[key].add(&e, 1)
			digest += e.mark()
		}
		if digest != o.digest {
			tb.Fatalf("digest %x, want %x", o.digest, digest)
		}
	}
	if diff := cmp.Diff(want, t.sums, cmp.AllowUnexported(total{}), cmpopts.EquateEmpty()); diff != "" {
		tb.Fatalf("sums (-recomputed +kept):\n%s", diff)
	}
}

// Whatever is lost, delayed, repeated or reordered: for each origin a table holds a
// state that the origin had, never an older one than before, and the sums are those
// of the entries. Once the latest whole frames have come, it holds the latest states.
func TestAnyDelivery(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		table := NewTable()
		for range rapid.IntRange(0, 2*len(h.frames)).Draw(rt, "deliveries") {
			f := rapid.SampledFrom(h.frames).Draw(rt, "frame")
			before := uint64(0)
			if o := table.origins[f.Origin]; o != nil {
				before = o.sequence
			}
			if _, err := table.Merge(f, start); err != nil && !errors.Is(err, ErrGap) {
				rt.Fatal(err)
			}
			table.recompute(rt)
			o := table.origins[f.Origin]
			if o == nil {
				continue
			}
			if o.sequence < before {
				rt.Fatalf("%s went back from %d to %d", f.Origin, before, o.sequence)
			}
			if diff := cmp.Diff(h.states[f.Origin][o.sequence], o.entries); diff != "" {
				rt.Fatalf("%s at %d (-said +merged):\n%s", f.Origin, o.sequence, diff)
			}
		}
		var latest []Frame
		for _, p := range h.publishers {
			latest = append(latest, p.Whole())
		}
		for _, f := range rapid.Permutation(append(latest, h.frames...)).Draw(rt, "late") {
			_, _ = table.Merge(f, start)
		}
		for name, p := range h.publishers {
			if diff := cmp.Diff(p.state(), table.origins[name].entries); diff != "" {
				rt.Fatalf("%s at last (-said +merged):\n%s", name, diff)
			}
		}
		table.recompute(rt)
		if rapid.Bool().Draw(rt, "silence") {
			table.Expire(start.Add(time.Hour), time.Second)
		}
		for name := range h.publishers {
			table.Drop(name)
		}
		if len(table.origins)+len(table.sums) != 0 {
			rt.Fatalf("left: %v, %v", table.origins, table.sums)
		}
	})
}

// Whole frames merge to the same tables in any order, grouped in any way, any number
// of times.
func TestMergeIsALattice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		frames := slices.DeleteFunc(h.frames, func(f Frame) bool { return !f.Whole })
		merged := func(frames []Frame) *Table {
			table := NewTable()
			for _, f := range frames {
				if _, err := table.Merge(f, start); err != nil {
					rt.Fatal(err)
				}
			}
			return table
		}
		once := merged(frames)
		other := merged(append(rapid.Permutation(frames).Draw(rt, "order"), frames...))
		if diff := cmp.Diff(once.snapshot(), other.snapshot()); diff != "" {
			rt.Fatalf("-once +again:\n%s", diff)
		}
	})
}

func (t *Table) snapshot() map[string]map[Key]Entry {
	out := map[string]map[Key]Entry{}
	for name, o := range t.origins {
		out[name] = maps.Clone(o.entries)
	}
	return out
}

// The keys that Merge names are all those whose sums changed.
func TestChangedKeys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		table := NewTable()
		held := map[Key]Sum{}
		follow := func(changed []Key) {
			for _, s := range table.Sums(changed, nil) {
				held[s.Key] = s
				if s == (Sum{Key: s.Key}) {
					delete(held, s.Key)
				}
			}
			want := map[Key]Sum{}
			for _, s := range table.All(nil) {
				want[s.Key] = s
			}
			if diff := cmp.Diff(want, held); diff != "" {
				rt.Fatalf("-sums +followed:\n%s", diff)
			}
		}
		for _, f := range h.frames {
			changed, err := table.Merge(f, start)
			if err == nil {
				follow(changed)
			}
		}
		follow(table.Drop("a"))
		follow(table.Expire(start.Add(time.Hour), time.Second))
	})
}
