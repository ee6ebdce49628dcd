package routing

import (
	"fmt"
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
				benchmarkPick(b, fleet(b, n, form.policy), 0)
			})
		}
	}
	// The slow way: every home has more to do than it can win with.
	b.Run("auto-loaded/1000", func(b *testing.B) {
		benchmarkPick(b, fleet(b, 1000, Policy{Strategy: PrefixAware}), 20000)
	})
}

// benchmarkPick measures a request's way through map and choice with load
// requests in flight.
func benchmarkPick(b *testing.B, e *Epoch, load int) {
	b.Helper()
	p := NewPicker(PickerConfig{})
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
