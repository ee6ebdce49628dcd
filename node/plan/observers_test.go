package plan

import (
	"fmt"
	"slices"
	"testing"
)

func TestObservers(t *testing.T) {
	var members []string
	for i := range 10 {
		members = append(members, fmt.Sprintf("router-%d", i))
	}
	share := map[string]int{}
	moved := 0
	const backends = 1000
	for i := range backends {
		id := fmt.Sprintf("gpu-%d", i)
		got := Observers(members, id)
		other := slices.Clone(members)
		slices.Reverse(other)
		if len(got) != 3 || !slices.Equal(got, Observers(other, id)) {
			t.Fatalf("%v", got)
		}
		for _, name := range got {
			share[name]++
		}
		after := Observers(members[1:], id)
		for _, name := range after {
			if !slices.Contains(got, name) {
				moved++
			}
		}
		if !slices.Contains(got, members[0]) && !slices.Equal(got, after) {
			t.Fatalf("%v became %v without %s", got, after, members[0])
		}
	}
	for name, n := range share {
		if n < 230 || n > 370 {
			t.Errorf("%s probes %d of %d", name, n, backends)
		}
	}
	if moved != share[members[0]] {
		t.Errorf("%d probes moved, %d had to", moved, share[members[0]])
	}
	if got := Observers(members[:2], "a"); len(got) != 2 {
		t.Errorf("%v of two", got)
	}
	if got := Observers(nil, "a"); len(got) != 0 {
		t.Errorf("%v of none", got)
	}
}

func TestMajority(t *testing.T) {
	for _, tt := range []struct {
		yes, of int
		want    bool
	}{{0, 0, false}, {1, 1, true}, {1, 2, false}, {2, 2, true}, {1, 3, false}, {2, 3, true}, {3, 3, true}} {
		if got := (vote{tt.yes, tt.of}).majority(); got != tt.want {
			t.Errorf("%+v", tt)
		}
	}
}

func BenchmarkObservers(b *testing.B) {
	var members []string
	for i := range 20 {
		members = append(members, fmt.Sprintf("router-%d-0123abcd", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		Observers(members, "10.0.12.34:8000")
	}
}
