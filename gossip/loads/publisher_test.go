package loads

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestSetReportsNews(t *testing.T) {
	p := NewPublisher("a")
	for i, tt := range []struct {
		e    Entry
		news bool
	}{
		{Entry{ID: "x", Incarnation: 1}, false}, // at rest before and after
		{busy("x", 1), true},
		{busy("x", 1), false},
		{Entry{ID: "x", Incarnation: 1}, true},
		{Entry{ID: "x", Incarnation: 1}, false},
		{Entry{ID: "x", Incarnation: 2, Probe: Dead}, true},
		{Entry{InFlight: 1}, false}, // no id
		{Entry{ID: "y", InFlight: -3}, false},
	} {
		if got := p.Set(tt.e); got != tt.news {
			t.Errorf("%d: Set(%+v) is %v", i, tt.e, got)
		}
	}
	if f := p.Whole(); len(f.Entries) != 1 || f.Entries[0].Probe != Dead || f.Sequence != 3 {
		t.Errorf("%+v", f)
	}
}

func TestChanged(t *testing.T) {
	p := NewPublisher("a")
	ch := p.Changed(0)
	select {
	case <-ch:
		t.Fatal("nothing changed")
	default:
	}
	p.Set(busy("x", 1))
	for _, ch := range []<-chan struct{}{ch, p.Changed(0)} {
		select {
		case <-ch:
		default:
			t.Error("a change was not told")
		}
	}
	select {
	case <-p.Changed(1):
		t.Error("told twice")
	default:
	}
}

// Peers at any speed follow by deltas alone, as long as they are not too far behind,
// and what the publisher remembers is bounded by what is active.
func TestPeersAtDifferentSpeeds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := NewPublisher("a")
		tables := []*Table{NewTable(), NewTable(), NewTable()}
		cursors := make([]uint64, len(tables))
		feed := func(i int) {
			f := p.Delta(cursors[i])
			if _, err := tables[i].Merge(f, start); err != nil {
				rt.Fatal(err)
			}
			cursors[i] = f.Sequence
			if o := tables[i].origins["a"]; o.digest != p.digest || len(o.entries) != p.active {
				rt.Fatalf("peer %d is not up to date", i)
			}
		}
		for step := range rapid.IntRange(1, 3000).Draw(rt, "steps") {
			// Ever new model servers, each busy for a while.
			p.Set(busy(fmt.Sprint(step), 1))
			p.Set(busy(fmt.Sprint(step-20), 0))
			feed(0)
			if step%50 == 0 {
				feed(1)
			}
			if p.active > 20 || len(p.journal) > 4*20+256 || len(p.entries) > len(p.journal) {
				rt.Fatalf("%d active, %d in the journal, %d entries", p.active, len(p.journal), len(p.entries))
			}
		}
		for i := range tables {
			feed(i)
		}
	})
}

// Whoever is so far behind that the end of something is forgotten gets everything.
func TestFarBehind(t *testing.T) {
	p, table := NewPublisher("a"), NewTable()
	p.Set(busy("ended", 1))
	first := p.Whole()
	merge(t, table, first)
	p.Set(busy("ended", 0))
	for i := range 2000 {
		p.Set(busy(fmt.Sprint(i), 1))
		p.Set(busy(fmt.Sprint(i), 0))
	}
	p.Set(busy("last", 1))
	f := p.Delta(first.Sequence)
	merge(t, table, f)
	if all := table.All(nil); !f.Whole || len(all) != 1 || all[0].ID != "last" {
		t.Errorf("whole %v: %+v", f.Whole, all)
	}
}

func TestDeltaIsSmall(t *testing.T) {
	p := NewPublisher("a")
	for i := range 1000 {
		p.Set(busy(fmt.Sprint(i), 1))
	}
	cursor, whole := p.Whole().Sequence, 0
	for i := range 100_000 {
		p.Set(busy(fmt.Sprint(i%1000), i%7+2))
		if i%10 != 0 {
			continue
		}
		f := p.Delta(cursor)
		if cursor = f.Sequence; f.Whole {
			whole++
		} else if len(f.Entries) > 10 {
			t.Fatalf("%d entries for ten changes", len(f.Entries))
		}
	}
	if whole > 0 {
		t.Errorf("%d whole frames", whole)
	}
}
