// Package loads is what the replicas tell each other about model servers: requests
// in flight, pending prefill work, and opinions of their health.
//
// Each replica publishes a table of its own ([Publisher]) and merges the others'
// ([Table]). Values are absolute, so that a lost frame loses nothing but time, and
// nothing can drift: what an origin said is replaced as a whole or dropped as a
// whole. A model server at rest is in no table, so tables are as large as what is
// active.
//
// A frame leads to a version of its origin's table and carries the digest of that
// version. The digest alone decides whether it fits what a peer has: peers at
// different speeds get different frames, and one that begins earlier than necessary
// is as good. The package does no I/O, reads no clock and starts no goroutine.
package loads

import (
	"cmp"
	"errors"
)

// Limits of what is accepted from a peer.
const (
	// MaxEntries is how many model servers one origin's table may hold.
	MaxEntries = 1 << 16
	// MaxOrigins is how many origins a table may hold.
	MaxOrigins = 256
	// MaxID is the length of a model server's id, in bytes.
	MaxID = 256
	// maxCount and maxWork keep sums over all origins far from the limits of an
	// integer.
	maxCount = 1 << 30
	maxWork  = 1 << 50
)

// Facts that a caller can tell apart with errors.Is.
var (
	// ErrGap: the frame does not lead to what its origin has; ask it for a whole one.
	ErrGap = errors.New("a frame is missing")
	// ErrFrame: the frame is malformed. Its origin is not to be trusted.
	ErrFrame = errors.New("malformed frame")
	// ErrTooMany: MaxEntries or MaxOrigins would be passed.
	ErrTooMany = errors.New("too many entries or origins")
)

// Key names one incarnation of a model server.
type Key struct {
	ID          string
	Incarnation uint64
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
}

// Verdict is what an origin's own requests say about a model server.
type Verdict uint8

// The verdicts.
const (
	Well    Verdict = iota
	Ejected         // it failed or stalled
	Refused         // it refused a connection
)

// Probe is what an origin's own probes say about a model server.
type Probe uint8

// The results of probes.
const (
	Unprobed Probe = iota // the origin does not probe it, or does not know yet
	Ready
	Dead
)

// Entry is all that one origin has on one incarnation of a model server, in
// absolute values.
type Entry struct {
	ID          string
	Incarnation uint64
	InFlight    int
	Prefill     int64 // pending prefill work in token equivalents
	Verdict     Verdict
	Succeeded   bool // a request succeeded lately
	Probe       Probe
}

// Key is what the entry is about.
func (e *Entry) Key() Key { return Key{e.ID, e.Incarnation} }

// resting reports whether the entry says nothing; such a one is in no table.
func (e *Entry) resting() bool { return *e == Entry{ID: e.ID, Incarnation: e.Incarnation} }

func (e *Entry) valid() bool {
	return e.ID != "" && len(e.ID) <= MaxID && e.InFlight >= 0 && e.InFlight <= maxCount &&
		e.Prefill >= 0 && e.Prefill <= maxWork && e.Verdict <= Refused && e.Probe <= Dead
}

// Frame is what an origin tells a peer: its whole table, or what changed since an
// earlier frame. One without entries is a sign of life.
type Frame struct {
	Origin string
	// Sequence is the version of the origin's table that the frame leads to.
	Sequence uint64
	Whole    bool
	// Entries are sorted by ID and incarnation, each key once. One at rest takes what
	// was there out of the table.
	Entries []Entry
	// Sum is the digest of the origin's table after the frame.
	Sum uint64
}

// mark is the entry's contribution to the digest of a table, which is the sum of
// all: it depends on no order and follows a change in one step. 0 for one at rest.
// The id is hashed by FNV-1a (Fowler, Noll and Vo), the rest goes in through the
// output function of SplitMix64 (Steele, Lea and Flood 2014, Stafford's variant 13).
func (e *Entry) mark() uint64 {
	if e.resting() {
		return 0
	}
	h := uint64(0xcbf29ce484222325)
	for i := range len(e.ID) {
		h = (h ^ uint64(e.ID[i])) * 0x100000001b3
	}
	opinions := uint64(e.Verdict)<<16 | uint64(e.Probe)<<8
	if e.Succeeded {
		opinions |= 1
	}
	h = mix(h ^ e.Incarnation)
	h = mix(h ^ uint64(e.InFlight))
	h = mix(h ^ uint64(e.Prefill))
	return mix(h ^ opinions)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
