package peer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/places"
)

// overTheWire takes placements there and back, and returns how many bytes they were.
func overTheWire(t rapid.TB, ps []places.Placement) (back []places.Placement, size int) {
	t.Helper()
	data, err := proto.Marshal(&peerpb.LoadsMessage{Places: placesToWire(ps)})
	if err != nil {
		t.Fatal(err)
	}
	var message peerpb.LoadsMessage
	if err := proto.Unmarshal(data, &message); err != nil {
		t.Fatal(err)
	}
	if back, err = placesFromWire(message.GetPlaces()); err != nil {
		t.Fatal(err)
	}
	return back, len(data)
}

func TestPlacesRoundTrip(t *testing.T) {
	placement := rapid.Custom(func(t *rapid.T) places.Placement {
		return places.Placement{
			Pin: rapid.Uint64().Draw(t, "pin"), ID: rapid.StringN(1, -1, places.MaxID).Draw(t, "id"), Incarnation: rapid.Uint64Range(0, 3).Draw(t, "incarnation"),
			Depth: rapid.IntRange(0, places.MaxDepth).Draw(t, "depth"), Written: rapid.Int64Range(0, places.MaxWritten).Draw(t, "written"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOfN(placement, 1, 5).Draw(t, "known")
		ps := rapid.SliceOf(rapid.OneOf(placement, rapid.SampledFrom(known))).Draw(t, "placements")
		if back, _ := overTheWire(t, ps); !slices.Equal(back, ps) {
			t.Fatalf("%v, want %v", back, ps)
		}
	})
}

// A placement takes at most 32 bytes, with what a message has anyway left out.
func TestPlacesAreSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct{ placements, backends int }{{20, 8}, {20, 50}, {200, 50}, {batchMost, 1000}} {
		ps := make([]places.Placement, tt.placements)
		for i := range ps {
			ps[i] = places.Placement{
				Pin: random.Uint64(), ID: fmt.Sprintf("vllm-%04d", random.IntN(tt.backends)), Incarnation: 3,
				Depth: random.IntN(1 << 17), Written: random.Int64N(1 << 36),
			}
		}
		_, size := overTheWire(t, ps)
		each := float64(size) / float64(tt.placements)
		t.Logf("%d placements over %d model servers: %.1f bytes each", tt.placements, tt.backends, each)
		if each > 32 {
			t.Errorf("%d placements over %d model servers: %.1f bytes each", tt.placements, tt.backends, each)
		}
	}
}

// columns is a message of n placements on one model server.
func columns(n int) *peerpb.Places {
	return &peerpb.Places{
		Backend: []string{"gpu-0"}, Incarnation: []uint64{1},
		Pin: make([]uint64, n), Index: make([]uint32, n), Depth: make([]uint32, n), Written: make([]uint64, n),
	}
}

func TestMalformedPlaces(t *testing.T) {
	tests := map[string]struct {
		n      int
		change func(p *peerpb.Places)
		ok     bool
	}{
		"as it should be":          {2, func(*peerpb.Places) {}, true},
		"as many as there may be":  {batchMost, func(*peerpb.Places) {}, true},
		"at the limits":            {1, func(p *peerpb.Places) { p.Depth[0], p.Written[0] = places.MaxDepth, places.MaxWritten }, true},
		"a long id":                {1, func(p *peerpb.Places) { p.Backend[0] = strings.Repeat("x", places.MaxID) }, true},
		"too many":                 {batchMost + 1, func(*peerpb.Places) {}, false},
		"backends for nothing":     {0, func(*peerpb.Places) {}, false},
		"more backends than rows":  {1, func(p *peerpb.Places) { p.Backend, p.Incarnation = []string{"a", "b"}, []uint64{1, 1} }, false},
		"no pin":                   {2, func(p *peerpb.Places) { p.Pin = p.Pin[:1] }, false},
		"no index":                 {2, func(p *peerpb.Places) { p.Index = p.Index[:1] }, false},
		"no depth":                 {2, func(p *peerpb.Places) { p.Depth = nil }, false},
		"written too often":        {2, func(p *peerpb.Places) { p.Written = make([]uint64, 3) }, false},
		"no incarnation":           {2, func(p *peerpb.Places) { p.Incarnation = nil }, false},
		"an incarnation too many":  {2, func(p *peerpb.Places) { p.Incarnation = make([]uint64, 2) }, false},
		"an index without backend": {2, func(p *peerpb.Places) { p.Index[1] = 1 }, false},
		"the highest index":        {2, func(p *peerpb.Places) { p.Index[1] = math.MaxUint32 }, false},
		"an empty id":              {2, func(p *peerpb.Places) { p.Backend[0] = "" }, false},
		"an id too long":           {2, func(p *peerpb.Places) { p.Backend[0] = strings.Repeat("x", places.MaxID+1) }, false},
		"too deep":                 {2, func(p *peerpb.Places) { p.Depth[1] = places.MaxDepth + 1 }, false},
		"too much written":         {2, func(p *peerpb.Places) { p.Written[1] = places.MaxWritten + 1 }, false},
		"negative":                 {2, func(p *peerpb.Places) { p.Written[1] = math.MaxUint64 }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wire := columns(tt.n)
			tt.change(wire)
			ps, err := placesFromWire(wire)
			if (err == nil) != tt.ok || tt.ok && len(ps) != tt.n || !tt.ok && ps != nil {
				t.Errorf("%d placements, %v", len(ps), err)
			}
		})
	}
}

// Whatever a router sends is refused, or is what a log may hold.
func FuzzPlaces(f *testing.F) {
	for _, wire := range []*peerpb.Places{
		nil, columns(3), placesToWire([]places.Placement{{Pin: 1, ID: "gpu-0", Depth: 4, Written: 5}, {ID: "gpu-1", Incarnation: 7}}),
	} {
		data, err := proto.Marshal(wire)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var wire peerpb.Places
		if proto.Unmarshal(data, &wire) != nil {
			return
		}
		ps, err := placesFromWire(&wire)
		if err != nil {
			return
		}
		l := places.NewLog(batchMost)
		l.Add(ps)
		kept, _ := l.Since(0, batchMost)
		if !slices.Equal(kept, ps) {
			t.Fatalf("accepted %v, a log keeps %v", ps, kept)
		}
		if back, _ := overTheWire(t, ps); !slices.Equal(back, ps) {
			t.Fatalf("%v became %v", ps, back)
		}
	})
}
