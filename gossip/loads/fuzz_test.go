package loads

import (
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzMerge takes arbitrary frames in after some good ones: an error changes nothing,
// and the sums are always those of the entries.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 1, 'x', 1, 2, 3, 0, 0, 0, 1, 'y', 1, 9, 9, 1, 1, 1})
	f.Add([]byte{2, 0, 1, 'x', 1, 0, 0, 0, 0, 0})
	f.Add([]byte{9, 3, 1, 'x', 1, 0xff, 0, 7, 1, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		table, p := NewTable(), NewPublisher("a")
		p.Set(busy("x", 2))
		merge(t, table, p.Whole())
		for len(data) > 0 {
			var frame Frame
			frame, data = readFrame(data)
			before := table.snapshot()
			changed, err := table.Merge(frame, start)
			table.recompute(t)
			if err == nil {
				continue
			}
			if !errors.Is(err, ErrFrame) && !errors.Is(err, ErrGap) && !errors.Is(err, ErrTooMany) {
				t.Fatal(err)
			}
			if len(changed) != 0 || len(table.snapshot()) != len(before) {
				t.Fatalf("%v, and %v changed", err, changed)
			}
		}
		table.Drop("a")
		table.Drop("b")
		if len(table.sums) != 0 {
			t.Fatalf("left: %v", table.sums)
		}
	})
}

// readFrame makes a frame of any bytes; its sum is right in half of the cases.
func readFrame(data []byte) (Frame, []byte) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	f := Frame{Origin: "a", Sequence: uint64(next())}
	flags := next()
	f.Whole = flags&1 != 0
	if flags&2 != 0 {
		f.Origin = "b"
	}
	for n := next() % 8; n > 0 && len(data) > 0; n-- {
		f.Entries = append(f.Entries, Entry{
			ID: string(next()), Incarnation: uint64(next()), InFlight: int(int8(next())), Prefill: int64(int8(next())),
			Verdict: Verdict(next()), Succeeded: next() > 1, Probe: Probe(next()),
		})
		f.Sum += f.Entries[len(f.Entries)-1].mark()
	}
	if flags&4 != 0 && len(data) >= 8 {
		f.Sum = binary.LittleEndian.Uint64(data)
	}
	return f, data
}
