package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// observers is how many routers probe one backend: two can outvote one that is cut off, and the number of probes does
// not grow with the number of routers.
const observers = 3

// Observers returns the routers that probe a backend, fewer than three when there are fewer, the first in rank first. The
// ranking is a rendezvous (Thaler and Ravishankar 1998): all replicas with the same members name the same ones, and one
// router's end moves only its own probes. Members must not repeat.
func Observers(members []string, backend string) []string {
	type ranked struct {
		score uint64
		name  string
	}
	first := make([]ranked, 0, observers+1)
	seed := mix(fold(offset, backend))
	for _, name := range members {
		r := ranked{mix(fold(seed, name)), name}
		if len(first) == observers && r.score < first[observers-1].score {
			continue
		}
		i, _ := slices.BinarySearchFunc(first, r, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
		})
		if i < observers {
			first = slices.Insert(first, i, r)
			first = first[:min(len(first), observers)]
		}
	}
	names := make([]string, len(first))
	for i, r := range first {
		names[i] = r.name
	}
	return names
}

// offset is where FNV-1a begins (Fowler, Noll and Vo).
const offset uint64 = 0xcbf29ce484222325

// fold is FNV-1a over text, begun at h.
func fold(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 0x100000001b3
	}
	return h
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood 2014, Stafford's variant 13): FNV alone leaves names that
// end alike near each other.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// vote is how many of a backend's observers say something.
type vote struct{ yes, of int }

func count(observers, say []string) vote {
	v := vote{of: len(observers)}
	for _, name := range observers {
		if slices.Contains(say, name) {
			v.yes++
		}
	}
	return v
}

func (v vote) majority() bool { return 2*v.yes > v.of }

func (v vote) String() string { return fmt.Sprintf("%d of %d", v.yes, v.of) }
