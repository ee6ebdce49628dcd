package hot

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostile reads reports and a former table from data: few hashes, so that parents form cycles and chunks come twice, and
// any bits for numbers.
func hostile(data []byte) (before []Run, reports []Report) {
	next := func() uint64 {
		var b [8]byte
		data = data[copy(b[:], data):]
		return binary.LittleEndian.Uint64(b[:])
	}
	number := func() float64 {
		v := next()
		if v%4 > 0 {
			return float64(v>>2) / (1 << 50)
		}
		return math.Float64frombits(v)
	}
	for len(data) > 0 {
		switch shape := next(); shape % 4 {
		case 0:
			reports = append(reports, Report{Requests: number(), Written: number()})
		case 1:
			before = append(before, Run{First: shape >> 8 % 16, Last: shape >> 16 % 16, Length: int(next()), Servers: int(next())})
		default:
			if len(reports) == 0 {
				reports = append(reports, Report{Requests: 100, Written: 10})
			}
			r := &reports[len(reports)-1]
			r.Counts = append(r.Counts, Count{Chunk: shape >> 8 % 16, Parent: shape >> 16 % 20, Visits: number()})
		}
	}
	return before, reports
}

func FuzzMake(f *testing.F) {
	words := func(v ...uint64) (out []byte) {
		for _, w := range v {
			out = binary.LittleEndian.AppendUint64(out, w)
		}
		return out
	}
	const ten = 10<<52 | 1
	count := func(chunk, parent uint64) uint64 { return 2 | chunk<<8 | parent<<16 }
	f.Add(words(count(1, 19), ten, count(2, 1), ten, count(3, 2), ten))
	f.Add(words(count(1, 3), ten, count(2, 1), ten, count(3, 2), ten, count(4, 3), ten, count(5, 5), ten))
	f.Add(words(count(1, 19), ten, count(1, 2), ten, count(2, 1), math.Float64bits(math.Inf(1))))
	f.Add(words(0, ten, math.Float64bits(math.Inf(-1)), count(1, 19), math.Float64bits(math.Inf(1)), 1|1<<8|2<<16, math.MaxUint64, 5))
	f.Add(words(1|1<<8|2<<16, math.MaxInt64, math.MaxInt64, count(1, 2), ten, count(2, 1), ten, count(3, 19), ten))
	f.Fuzz(func(t *testing.T, data []byte) {
		before, reports := hostile(data[:min(len(data), 1<<12)])
		cfg := Config{Servers: 1 + len(data)%9, Capacity: 1000, MaxRuns: len(data) % 5}
		made := Make(before, reports, cfg)
		parent := map[uint64]uint64{}
		for _, c := range merge(reports).Counts {
			parent[c.Chunk] = c.Parent
		}
		orderly(t, made.Runs, parent, cfg.Servers)
		if len(made.Runs) > 16 || cfg.MaxRuns > 0 && len(made.Runs) > cfg.MaxRuns || made.Chunks > 16 || made.Cut < 0 ||
			!(made.Alpha >= 2 && made.Alpha <= 8) || !(made.Requests >= 0) || math.IsInf(made.Requests, 0) {
			t.Fatalf("%+v", made)
		}
		slices.Reverse(reports)
		if diff := cmp.Diff(made, Make(before, reports, cfg)); diff != "" {
			t.Fatalf("in another order (-first +now):\n%s", diff)
		}
		slices.Reverse(before)
		if diff := cmp.Diff(made, Make(before, reports, cfg)); diff != "" {
			t.Fatalf("former table in another order (-first +now):\n%s", diff)
		}
	})
}

// FuzzSketch reads operations on a small sketch.
func FuzzSketch(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 200, 7, 8, 9, 250, 1, 2, 240, 20})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewSketch(5)
		for len(data) > 0 {
			op := data[0]
			data = data[1:]
			switch {
			case op >= 250:
				s.Resize(int(op) - 250 + len(data)%20)
			case op >= 240:
				s.Decay(float64(op-240) / 9)
			default:
				n := min(len(data), int(op%9))
				chain := make([]uint64, n)
				for i, b := range data[:n] {
					chain[i] = uint64(b)
				}
				s.Add(testRoot, chain, float64(op))
				data = data[n:]
			}
			sound(t, s)
		}
	})
}
