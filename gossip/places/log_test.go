package places

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// numbered makes placements that bear their number in the log as Written.
func numbered(from, to int) (ps []Placement) {
	for i := from; i < to; i++ {
		ps = append(ps, Placement{Pin: uint64(i) + 1, ID: "gpu-0", Written: int64(i)})
	}
	return ps
}

func TestSince(t *testing.T) {
	tests := map[string]struct {
		added    int
		cursor   uint64
		most     int
		from, to int // what is returned
		next     uint64
	}{
		"empty":                   {added: 0, most: 5},
		"all":                     {added: 3, most: 5, to: 3, next: 3},
		"as many as asked for":    {added: 4, most: 2, to: 2, next: 2},
		"none asked for":          {added: 4, most: 0},
		"fewer than none":         {added: 4, cursor: 1, most: -3, next: 1},
		"the rest":                {added: 4, cursor: 2, most: 5, from: 2, to: 4, next: 4},
		"nothing new":             {added: 4, cursor: 4, most: 5, next: 4},
		"beyond the head":         {added: 3, cursor: 9, most: 5, next: 3},
		"full":                    {added: 4, most: 9, to: 4, next: 4},
		"the oldest that is kept": {added: 6, most: 9, from: 2, to: 6, next: 6},
		"fell out":                {added: 11, cursor: 3, most: 2, from: 7, to: 9, next: 9},
		"over the ring's end":     {added: 7, cursor: 3, most: 9, from: 3, to: 7, next: 7},
		"from within":             {added: 7, cursor: 5, most: 1, from: 5, to: 6, next: 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLog(4)
			l.Add(numbered(0, tt.added))
			ps, next := l.Since(tt.cursor, tt.most)
			if diff := cmp.Diff(numbered(tt.from, tt.to), ps); diff != "" || next != tt.next {
				t.Errorf("next %d, want %d: %s", next, tt.next, diff)
			}
			if l.Head() != uint64(tt.added) {
				t.Errorf("head %d after %d", l.Head(), tt.added)
			}
		})
	}
}

// What comes out is what any peer accepts.
func TestAddOfWhatIsOutOfRange(t *testing.T) {
	l := NewLog(0) // keeps one
	l.Add([]Placement{{ID: "gpu-0", Depth: MaxDepth + 1, Written: MaxWritten + 1}, {}, {ID: strings.Repeat("x", MaxID+1)}})
	ps, next := l.Since(0, 9)
	if want := []Placement{{ID: "gpu-0", Depth: MaxDepth, Written: MaxWritten}}; !slices.Equal(ps, want) || next != 1 {
		t.Errorf("%v, next %d", ps, next)
	}
	l.Add([]Placement{{ID: strings.Repeat("x", MaxID), Depth: -1, Written: -1}})
	ps, next = l.Since(1, 9)
	if want := []Placement{{ID: strings.Repeat("x", MaxID)}}; !slices.Equal(ps, want) || next != 2 {
		t.Errorf("%v, next %d", ps, next)
	}
}

// Readers at their own pace read what a plain slice would give them.
func TestLogIsTheEndOfASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		l, total := NewLog(capacity), 0
		cursors := make([]uint64, 3)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			n := rapid.IntRange(0, 30).Draw(t, "added")
			l.Add(numbered(total, total+n))
			total += n
			reader := rapid.IntRange(0, len(cursors)-1).Draw(t, "reader")
			most := rapid.IntRange(0, 25).Draw(t, "most")
			from := max(int(cursors[reader]), total-capacity)
			want := numbered(from, min(total, from+most))
			ps, next := l.Since(cursors[reader], most)
			if !slices.Equal(ps, want) || next != uint64(from+len(want)) {
				t.Fatalf("%v, next %d, want %v", ps, next, want)
			}
			cursors[reader] = next
		}
	})
}

// Readers see each writer's placements in its order, while others write.
func TestConcurrentUse(t *testing.T) {
	const writers, each = 4, 2000
	l := NewLog(writers * each)
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := range each {
				l.Add([]Placement{{ID: "gpu-0", Incarnation: uint64(w), Written: int64(i)}})
			}
		})
	}
	for range 2 {
		work.Go(func() {
			var expected [writers]int64
			var ps []Placement
			for cursor := uint64(0); cursor < writers*each; {
				ps, cursor = l.Since(cursor, 100)
				for _, p := range ps {
					if p.Written != expected[p.Incarnation] {
						t.Errorf("%d of writer %d, want %d", p.Written, p.Incarnation, expected[p.Incarnation])
						return
					}
					expected[p.Incarnation]++
				}
			}
		})
	}
	work.Wait()
}

// Reading does not make the ring visible: it goes on changing.
func TestSinceReturnsACopy(t *testing.T) {
	l := NewLog(2)
	l.Add(numbered(0, 2))
	ps, _ := l.Since(0, 2)
	l.Add(numbered(2, 4))
	if !slices.Equal(ps, numbered(0, 2)) {
		t.Errorf("changed to %v", ps)
	}
}
