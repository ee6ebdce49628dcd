package loads

import (
	"fmt"
	"testing"
	"time"
)

// The figures are for 1,000 model servers and 100 origins, each of which has
// something on every model server.
const benchBackends, benchOrigins = 1000, 100

func benchTable(b *testing.B) (*Table, []*Publisher) {
	b.Helper()
	table := NewTable()
	var publishers []*Publisher
	for o := range benchOrigins {
		p := NewPublisher(fmt.Sprint("router-", o))
		for i := range benchBackends {
			p.Set(busy(fmt.Sprint("gpu-", i), 1+i%7))
		}
		if _, err := table.Merge(p.Whole(), start); err != nil {
			b.Fatal(err)
		}
		publishers = append(publishers, p)
	}
	return table, publishers
}

// One frame of ten changes, made and merged, with its sums.
func BenchmarkDelta(b *testing.B) {
	table, publishers := benchTable(b)
	var sums []Sum
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		p := publishers[i%benchOrigins]
		since := p.version
		for j := range 10 {
			p.Set(busy(fmt.Sprint("gpu-", (i+97*j)%benchBackends), 1+i%11))
		}
		changed, err := table.Merge(p.Delta(since), start)
		if err != nil {
			b.Fatal(err)
		}
		sums = table.Sums(changed, sums[:0])
	}
}

// A whole frame of 1,000 entries, made and merged in the place of another one.
func BenchmarkWhole(b *testing.B) {
	table, publishers := benchTable(b)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		p := publishers[i%benchOrigins]
		p.Set(busy("gpu-0", i))
		if _, err := table.Merge(p.Whole(), start); err != nil {
			b.Fatal(err)
		}
	}
}

// A peer that went away.
func BenchmarkExpire(b *testing.B) {
	table, publishers := benchTable(b)
	i := 0
	for b.Loop() {
		i++
		table.Drop(publishers[i%benchOrigins].origin)
		table.Expire(start, time.Second)
		b.StopTimer()
		if _, err := table.Merge(publishers[i%benchOrigins].Whole(), start); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
