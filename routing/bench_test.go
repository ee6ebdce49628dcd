package routing

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/warmring/warmring/routing/prefix"
)

func BenchmarkMapPickRelease(b *testing.B) {
	forms := []struct {
		name   string
		policy Policy
	}{
		{"auto", Policy{Strategy: PrefixAware}},
		{"fixed", Policy{Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 64}},
		{"bound", Policy{Strategy: PrefixAware, PrefixLength: 1024}},
		{"least", Policy{Strategy: LeastOutstandingRequests}},
		{"random", Policy{Strategy: Random}},
	}
	for _, form := range forms {
		for _, n := range []int{7, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", form.name, n), func(b *testing.B) {
				benchmarkPick(b, NewPicker(PickerConfig{}), fleet(b, n, form.policy), 0)
			})
		}
	}
	// The slow way: every home has more to do than it can win with.
	b.Run("auto-loaded/1000", func(b *testing.B) {
		benchmarkPick(b, NewPicker(PickerConfig{}), fleet(b, 1000, Policy{Strategy: PrefixAware}), 20000)
	})
	// With peers who are told what changes.
	b.Run("auto-told/7", func(b *testing.B) {
		p := NewPicker(PickerConfig{})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			var own []Own
			for {
				select {
				case <-p.Changed():
					own = p.TakeChanged(own[:0], epochStart)
				case <-stop:
					return
				}
			}
		}()
		benchmarkPick(b, p, fleet(b, 7, Policy{Strategy: PrefixAware}), 0)
		close(stop)
		<-done
	})
}

// The choice alone: who is the cheapest of all, for a prompt that some hold.
func BenchmarkChoice(b *testing.B) {
	for _, n := range []int{7, 50, 200, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			p, e := NewPicker(PickerConfig{}), fleet(b, n, Policy{Strategy: PrefixAware})
			e = apply(b, e, Change{Hot: &HotTable{}})
			p.SetEpoch(e)
			var sums []PeerLoad
			for i, s := range e.Backends() {
				sums = append(sums, PeerLoad{ID: s.ID, Incarnation: s.Incarnation, InFlight: 1 + i*5%8, Prefill: int64(i * 977 % 20_000)})
			}
			p.SetPeers(sums, epochStart)
			places := make([]Place, 256)
			for i := range places {
				var err error
				if places[i], err = e.Map(&Request{Endpoint: "demo", Text: &prefix.Text{Bytes: fmt.Appendf(nil, "%08d", i)}, Size: 8000}); err != nil {
					b.Fatal(err)
				}
				places[i].chain = nil
				l, err := p.Pick(&places[i], nil, 0, epochStart)
				if err != nil {
					b.Fatal(err)
				}
				l.Release()
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c, err := p.choice(&places[i%len(places)], nil, 0, p.clock(epochStart))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.choose(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a frame of the peers costs, all of it under the mutex: 1,000 sums.
func BenchmarkSetPeers(b *testing.B) {
	p := NewPicker(PickerConfig{})
	p.SetEpoch(fleet(b, 1000, Policy{Strategy: PrefixAware}))
	var sums []PeerLoad
	for _, s := range p.Epoch().Backends() {
		sums = append(sums, PeerLoad{ID: s.ID, Incarnation: s.Incarnation, InFlight: 3})
	}
	b.ReportAllocs()
	for b.Loop() {
		p.SetPeers(sums, epochStart)
	}
}

// benchmarkPick measures a request's way through map and choice with load
// requests in flight.
func benchmarkPick(b *testing.B, p *Picker, e *Epoch, load int) {
	b.Helper()
	p.SetEpoch(e)
	text := &prefix.Text{Bytes: []byte(strings.Repeat("x", 256))}
	i := uint64(0)
	pick := func() *Lease {
		i++
		text.Bytes[0], text.Bytes[1] = byte(i), byte(i>>8)
		pl, err := e.Map(&Request{Endpoint: "demo", Text: text})
		if err != nil {
			b.Fatal(err)
		}
		l, err := p.Pick(&pl, nil, i, epochStart)
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	for range load {
		pick()
	}
	b.ReportAllocs()
	for b.Loop() {
		pick().Release()
	}
}

func BenchmarkFirst(b *testing.B) {
	k := fleet(b, 1000, Policy{Strategy: PrefixAware}).groups[0].keys
	i := uint64(0)
	for b.Loop() {
		i++
		k.first(mix(i))
	}
}
