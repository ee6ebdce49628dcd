package routing

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing/prefix"
)

// epochStart is some time; tests add to it.
var epochStart = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// fleet is an epoch with one endpoint "demo" and n active backends of weight 1,
// changed by the options.
func fleet(tb testing.TB, n int, policy Policy, options ...func(*Backend)) *Epoch {
	tb.Helper()
	c := Change{PutEndpoints: []Endpoint{{
		Name:     "demo",
		Variants: []Variant{{Name: "AllTraffic", Weight: 1, Policy: policy}},
	}}}
	for i := range n {
		b := backend(i)
		for _, option := range options {
			option(&b)
		}
		c.PutBackends = append(c.PutBackends, b)
	}
	return apply(tb, NewEpoch(1, 42), c)
}

func backend(i int) Backend {
	return Backend{
		ID: fmt.Sprintf("gpu-%d", i), URL: fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256),
		Endpoint: "demo", Variant: "AllTraffic", Weight: 1, State: Active,
	}
}

func maxInflight(n int) func(*Backend) { return func(b *Backend) { b.MaxInflight = n } }

func apply(tb testing.TB, e *Epoch, c Change) *Epoch {
	tb.Helper()
	next, err := e.Apply(c)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}

// bench is a picker with an epoch, and a clock that stands still.
type bench struct {
	testing.TB
	*Picker
	now  time.Time
	draw uint64
}

func newBench(tb testing.TB, e *Epoch) *bench {
	tb.Helper()
	p := NewPicker(PickerConfig{})
	p.SetEpoch(e)
	return &bench{TB: tb, Picker: p, now: epochStart}
}

// place maps a prompt that begins with the text; a colon and a number behind it
// are the length of the whole prompt in tokens.
func (b *bench) place(text string) Place {
	b.Helper()
	text, tokens, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(tokens)
	pl, err := b.Epoch().Map(&Request{Endpoint: "demo", Text: &prefix.Text{Bytes: []byte(text)}, Size: n * bytesPerToken})
	if err != nil {
		b.Fatal(err)
	}
	return pl
}

func (b *bench) try(text string, tried ...string) (*Lease, error) {
	b.Helper()
	pl := b.place(text)
	b.draw = mix(b.draw + 1)
	return b.Pick(&pl, tried, b.draw, b.now)
}

func (b *bench) pick(text string, tried ...string) *Lease {
	b.Helper()
	l, err := b.try(text, tried...)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// ranking is the ids in the map's order.
func (b *bench) ranking(text string) []string {
	pl := b.place(text)
	var ids []string
	for _, s := range pl.Ranking() {
		ids = append(ids, s.ID)
	}
	return ids
}

func (b *bench) load(id string) Load {
	b.Helper()
	for _, l := range b.Snapshot(b.now) {
		if l.Backend.ID == id && !l.Gone {
			return l
		}
	}
	b.Fatalf("no load of %s", id)
	return Load{}
}

// atRest fails when anything is counted.
func (b *bench) atRest() {
	b.Helper()
	for _, l := range b.Snapshot(b.now) {
		if l.InFlight != 0 || l.Prefill != 0 || l.Gone {
			b.Errorf("%s at rest: %d in flight, %d prefill, gone %v", l.Backend.ID, l.InFlight, l.Prefill, l.Gone)
		}
	}
}

func count(leases []*Lease) map[string]int {
	n := map[string]int{}
	for _, l := range leases {
		n[l.Backend.ID]++
	}
	return n
}

// People who drain a backend take it from the source that lists it, or the source would bring it back.
func TestADrainTakesABackendFromItsSource(t *testing.T) {
	e, err := NewEpoch(1, 1).Apply(Change{
		PutEndpoints: []Endpoint{{Name: "demo", Variants: []Variant{{Name: "main", Weight: 1, Policy: Policy{Strategy: Random}}}}},
		PutBackends:  []Backend{{ID: "a", URL: "http://a:1", Endpoint: "demo", Variant: "main", Weight: 1, State: Active, Source: "dns:gpus"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	drained, err := e.Apply(Change{Drain: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if b := drained.Backends()[0]; b.State != Draining || b.Source != "" {
		t.Errorf("got state %s of source %q, want draining of none", b.State, b.Source)
	}
}
