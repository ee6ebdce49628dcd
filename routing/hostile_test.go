package routing

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/warmring/warmring/routing/prefix"
)

// Row 46: millions of hostile prompts leave the sketch, the directory and what waits to be told within their bounds, and the
// heap as it was.
func TestHostilePromptsAtScale(t *testing.T) {
	n := 500_000
	if testing.Short() || raceEnabled {
		n = 100_000
	}
	text := make([]byte, 600)
	for _, kind := range []struct {
		name string
		make func(i uint64) []byte
	}{
		{"unique", func(i uint64) []byte { binary.BigEndian.PutUint64(text, mix(i)); return text }},
		{"the same", func(uint64) []byte { return text }},
		{"growing by a byte", func(i uint64) []byte { return text[:i%uint64(len(text))+1] }},
		{"unique at the end", func(i uint64) []byte { binary.BigEndian.PutUint64(text[len(text)-8:], mix(i)); return text }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			clear(text)
			b := newBench(t, fleet(t, 7, Policy{Strategy: PrefixAware}))
			b.SetReplicas(2, true, 100*time.Millisecond)
			b.hostile(n/4, 0, kind.make) // fills what is bounded
			before := liveHeap()
			b.hostile(n*3/4, n/4, kind.make)
			if grown := int64(liveHeap()) - int64(before); grown > 1<<20 {
				t.Errorf("the heap grew by %d KiB", grown>>10)
			}
			b.checkBounds()
			runtime.KeepAlive(b)
		})
	}
}

// hostile sends n prompts from a number on. Nobody takes what is to be told; ever new replicas tell of pins.
func (b *bench) hostile(n, from int, body func(i uint64) []byte) {
	b.Helper()
	var l Lease
	r := Request{Endpoint: "demo", Text: &prefix.Text{}}
	told := make([]Placement, 1)
	id := b.Epoch().Backends()[0]
	for i := range n {
		r.Text.Bytes = body(uint64(from + i))
		r.Chain = r.Chain[:0]
		pl, err := b.Epoch().Map(&r)
		if err != nil {
			b.Fatal(err)
		}
		b.now = b.now.Add(time.Millisecond)
		if err := b.PickInto(&l, &pl, nil, uint64(i), b.now); err != nil {
			b.Fatal(err)
		}
		b.Count(&pl, &l)
		l.FirstToken(b.now)
		l.Learn(150, 1, b.now)
		l.Release()
		if i%16 > 0 {
			continue
		}
		told[0] = Placement{Pin: mix(uint64(from+i) + 1<<40), ID: id.ID, Incarnation: id.Incarnation, Depth: 100, Written: int64(from + i)}
		b.HearPlacements(fmt.Sprint("replica ", i), told, b.now)
	}
}

func (b *bench) checkBounds() {
	b.Helper()
	sketch, learnt := b.Sketch().Stats(), b.Learnt()
	if sketch.Capacity != leastCounters || sketch.Counters > sketch.Capacity {
		b.Errorf("%d counters of %d", sketch.Counters, sketch.Capacity)
	}
	if learnt.Pins > leastPins || len(b.directory.slots) > leastPins {
		b.Errorf("%d pins in %d slots", learnt.Pins, len(b.directory.slots))
	}
	if len(b.placed) > untold || len(b.origins) > maxOrigins || len(b.lessons) != 1 || len(b.loads) != 7 {
		b.Errorf("%d placements wait, %d origins, %d lessons, %d loads", len(b.placed), len(b.origins), len(b.lessons), len(b.loads))
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has queued for finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
