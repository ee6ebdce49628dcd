package peer

import (
	"errors"
	"math"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/loads"
)

func frameToWire(f loads.Frame) *peerpb.Frame {
	entries := make([]peerpb.Load, len(f.Entries)) // one piece of memory
	out := &peerpb.Frame{Sequence: f.Sequence, Whole: f.Whole, Sum: f.Sum, Entries: make([]*peerpb.Load, len(entries))}
	for i := range f.Entries {
		from, to := &f.Entries[i], &entries[i]
		to.Backend, to.Incarnation = from.ID, from.Incarnation
		to.InFlight, to.Prefill = uint32(from.InFlight), uint64(from.Prefill)
		to.Verdict, to.Succeeded, to.Probe = uint32(from.Verdict), from.Succeeded, uint32(from.Probe)
		out.Entries[i] = to
	}
	return out
}

// frameFromWire names the stream's router as the origin: nobody speaks for another.
// The ranges are the table's to check, except where the types here are narrower.
func frameFromWire(origin string, f *peerpb.Frame) (loads.Frame, error) {
	out := loads.Frame{
		Origin: origin, Sequence: f.GetSequence(), Whole: f.GetWhole(), Sum: f.GetSum(), Entries: make([]loads.Entry, len(f.GetEntries())),
	}
	for i, from := range f.GetEntries() {
		if from.GetVerdict() > math.MaxUint8 || from.GetProbe() > math.MaxUint8 || from.GetPrefill() > math.MaxInt64 {
			return loads.Frame{}, errors.New("a frame of loads has values out of range")
		}
		out.Entries[i] = loads.Entry{
			ID: from.GetBackend(), Incarnation: from.GetIncarnation(),
			InFlight: int(from.GetInFlight()), Prefill: int64(from.GetPrefill()),
			Verdict: loads.Verdict(from.GetVerdict()), Succeeded: from.GetSucceeded(), Probe: loads.Probe(from.GetProbe()),
		}
	}
	return out, nil
}
