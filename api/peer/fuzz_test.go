package peer

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/loads"
)

// Whatever a router sends, the table takes it or refuses it, and can forget it.
func FuzzFrame(f *testing.F) {
	p := loads.NewPublisher("a")
	p.Set(loads.Entry{ID: "gpu-0", Incarnation: 3, InFlight: 4, Prefill: 5, Verdict: loads.Refused, Succeeded: true, Probe: loads.Dead})
	for _, frame := range []loads.Frame{p.Whole(), p.Delta(0), {}} {
		data, err := proto.Marshal(frameToWire(frame))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var wire peerpb.Frame
		if proto.Unmarshal(data, &wire) != nil {
			return
		}
		frame, err := frameFromWire("a", &wire)
		if err != nil {
			return
		}
		table := loads.NewTable()
		_, err = table.Merge(frame, time.Unix(1, 0))
		if err != nil && !errors.Is(err, loads.ErrGap) && !errors.Is(err, loads.ErrFrame) && !errors.Is(err, loads.ErrTooMany) {
			t.Fatal(err)
		}
		table.Drop("a")
		if left := table.All(nil); len(left) > 0 {
			t.Fatalf("left %v", left)
		}
	})
}

func TestFrameRoundTrip(t *testing.T) {
	p := loads.NewPublisher("a")
	p.Set(loads.Entry{ID: "gpu-0", Incarnation: 1 << 60, InFlight: 1 << 30, Prefill: 1 << 50, Verdict: loads.Ejected, Succeeded: true, Probe: loads.Ready})
	p.Set(loads.Entry{ID: "gpu-1", InFlight: 1})
	data, err := proto.Marshal(frameToWire(p.Whole()))
	if err != nil {
		t.Fatal(err)
	}
	var wire peerpb.Frame
	if err := proto.Unmarshal(data, &wire); err != nil {
		t.Fatal(err)
	}
	frame, err := frameFromWire("a", &wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loads.NewTable().Merge(frame, time.Unix(1, 0)); err != nil { // the digest compares the contents
		t.Error(err)
	}
}
