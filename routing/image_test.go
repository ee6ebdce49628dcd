package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// imageFleet has one of everything.
func imageFleet(tb testing.TB) *Epoch {
	tb.Helper()
	e := NewEpoch(3, 9876543210123456789)
	ep := endpoint("demo", func(ep *Endpoint) {
		ep.Aliases, ep.Adapters = []string{"org/model"}, []string{"lora"}
		ep.Variants[0].Policy = Policy{Strategy: PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 8}
	})
	a, b := backend(0), backend(1)
	a.MaxInflight, a.Source = 4, "dns:pool.example"
	b.State = Draining
	e = apply(tb, e, Change{PutEndpoints: []Endpoint{ep}, PutBackends: []Backend{a, b}})
	return apply(tb, e, Change{Hot: &HotTable{Runs: []Run{{First: 1 << 63, Last: 2, Length: 3, Servers: 2}}}})
}

const goldenImage = `{"v":1,"g":3,"n":2,"s":9876543210123456789,` +
	`"e":[{"name":"demo","aliases":["org/model"],"adapters":["lora"],"variants":[{"name":"AllTraffic","weight":1,` +
	`"policy":{"strategy":"PREFIX_AWARE","prefix_length":1024,"concurrency_threshold":8}}]}],` +
	`"b":[{"id":"gpu-0","url":"http://10.0.0.0:8000","endpoint":"demo","variant":"AllTraffic","weight":1,"max_inflight":4,` +
	`"state":"active","incarnation":8589934593,"source":"dns:pool.example"},` +
	`{"id":"gpu-1","url":"http://10.0.0.1:8000","endpoint":"demo","variant":"AllTraffic","weight":1,` +
	`"state":"draining","incarnation":8589934593}],` +
	`"h":{"runs":[{"first":9223372036854775808,"last":2,"length":3,"servers":2}]}}`

// The bytes are kept in logs and sent between versions: a change of them needs
// another imageVersion.
func TestImageGolden(t *testing.T) {
	e := imageFleet(t)
	text, err := json.Marshal(e.Image())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenImage, string(text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var i Image
	if err := json.Unmarshal([]byte(goldenImage), &i); err != nil {
		t.Fatal(err)
	}
	back, err := i.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	if back.Digest() != e.Digest() || back.ID() != e.ID() {
		t.Errorf("%s %x, want %s %x", back, back.Digest(), e, e.Digest())
	}
	// The digest covers what an image carries.
	for _, change := range []func(*Image){
		func(i *Image) { i.salt++ },
		func(i *Image) { i.Generation++ },
		func(i *Image) { i.Number++ },
		func(i *Image) { i.Backends[1].Source = "lease" },
		func(i *Image) { i.Backends[1].Incarnation++ },
		func(i *Image) { i.Hot = nil },
	} {
		i := e.Image()
		change(&i)
		if other, err := i.Epoch(); err != nil || other.Digest() == e.Digest() {
			t.Errorf("%v: the same digest, or %v", i, err)
		}
	}
}

func TestImageRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no version":    `{"g":1,"n":1,"s":42}`,
		"other version": `{"v":2,"g":1,"n":1,"s":42}`,
		"kind":          `{"v":1,"g":1,"n":1,"s":"42424242"}`,
		"no object":     `42424242`,
		"range":         `{"v":1,"s":424242424242424242424242}`,
	} {
		var i Image
		err := json.Unmarshal([]byte(text), &i)
		if err == nil || strings.Contains(err.Error(), "4242") {
			t.Errorf("%s: %v", name, err)
		}
	}
	i := imageFleet(t).Image()
	i.Backends = append(i.Backends, i.Backends[0])
	i.Backends[1].URL, i.Endpoints[0].Aliases = "ftp://x", []string{"lora"}
	i.Hot.Runs[0].Length = 0
	e, err := i.Epoch()
	if e != nil {
		t.Error("an epoch of a wrong image")
	}
	want := []string{"backends[gpu-0]", "endpoints[demo].adapters", "backends[gpu-1].url", "hot.runs[0].length"}
	if diff := cmp.Diff(want, paths(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Changing an image, or what it was made of, changes no epoch.
func TestImageIsACopy(t *testing.T) {
	e := imageFleet(t)
	i := e.Image()
	made, err := i.Epoch()
	if err != nil {
		t.Fatal(err)
	}
	i.Endpoints[0].Variants[0].Name, i.Backends[0].ID, i.Hot.Runs[0].Length = "x", "x", 99
	for _, e := range []*Epoch{e, made} {
		if e.sum() != e.Digest() {
			t.Error("an epoch was changed")
		}
	}
}

func TestImageHidesTheSalt(t *testing.T) {
	const salt = "9876543210123456789"
	i := imageFleet(t).Image()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		fmt.Fprintf(&out, verb+"\n"+verb+"\n", i, &i)
	}
	fmt.Fprintln(&out, i.String(), i.GoString(), []Image{i}, map[string]Image{"x": i})
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("epoch", "image", i)
		slog.New(h).Info("epoch", "image", &i)
	}
	if got := out.String(); strings.Contains(got, salt) || strings.Contains(got, "8910cc5") || !strings.Contains(got, "3.2") {
		t.Error(got)
	}
}

// FuzzImage: what can be read and is valid comes back from an epoch as it was.
func FuzzImage(f *testing.F) {
	f.Add([]byte(goldenImage))
	f.Add([]byte(`{"v":1,"g":1,"n":0,"s":42}`))
	f.Add([]byte(`{"v":1,"h":{"runs":null},"e":[],"b":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var i Image
		if json.Unmarshal(data, &i) != nil {
			return
		}
		e, err := i.Epoch()
		if err != nil {
			if len(paths(t, err)) == 0 {
				t.Fatalf("%v", err)
			}
			return
		}
		first, err := json.Marshal(e.Image())
		if err != nil {
			t.Fatal(err)
		}
		var again Image
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		back, err := again.Epoch()
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(back.Image())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) || back.Digest() != e.Digest() {
			t.Fatalf("%s, then %s", first, second)
		}
		route(t, back)
	})
}

func TestSucceed(t *testing.T) {
	e := imageFleet(t)
	next := e.Succeed(4)
	if next.ID() != "4.1" || next.Digest() == e.Digest() || next.salt != e.salt {
		t.Errorf("%s, digest %x", next, next.Digest())
	}
	if diff := cmp.Diff(e.Backends(), next.Backends()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if e.Compare(next) >= 0 || next.Compare(e) <= 0 || next.Compare(next.Succeed(4)) != 0 {
		t.Error("order")
	}
	if older := imageFleet(t); apply(t, older, Change{}).Compare(older) <= 0 {
		t.Error("order of numbers")
	}
	// Counts are kept, and homes.
	b := newBench(t, e)
	l := b.pick("x")
	home := b.place("x")
	b.SetEpoch(next)
	if again := b.place("x"); b.load(l.Backend.ID).InFlight != 1 || again.Home() != home.Home() {
		t.Errorf("%+v", b.load(l.Backend.ID))
	}
	// What returns in the new generation is above all its incarnations in the old.
	was := next.Backends()[0]
	gone := apply(t, next, Change{RemoveBackends: []string{was.ID}})
	if is := apply(t, gone, Change{PutBackends: []Backend{was}}).Backends()[0]; is.Incarnation <= was.Incarnation {
		t.Errorf("incarnation %d after %d", is.Incarnation, was.Incarnation)
	}
}
