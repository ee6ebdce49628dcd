package routing

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmring/warmring/routing/prefix"
)

// FuzzApply feeds any change to a small fleet: an error leaves everything as it
// was and names paths; an epoch is complete, the same when it is made again, and
// can be routed in.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"put_backends":[{"id":"a","url":"http://h:1","endpoint":"demo","weight":1,"state":"active"}]}`,
		`{"put_backends":[{"id":"gpu-0","url":"http://h:1","endpoint":"demo","weight":2.5,"max_inflight":3}],"drain":["gpu-1","gpu-0"]}`,
		`{"remove_backends":["gpu-0","gpu-1"],"remove_endpoints":["demo"]}`,
		`{"put_endpoints":[{"name":"demo","adapters":["x"],"variants":[{"name":"a","weight":0},{"name":"b","weight":1,"policy":{"strategy":"PREFIX_AWARE","prefix_length":1024}}]}]}`,
		`{"hot":{"runs":[{"first":1,"last":2,"length":3,"servers":2}]}}`,
	} {
		f.Add([]byte(seed))
	}
	base := fleet(f, 2, Policy{Strategy: PrefixAware})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Change
		if json.Unmarshal(data, &c) != nil {
			return
		}
		next, err := base.Apply(c)
		if base.sum() != base.digest {
			t.Fatal("Apply changed its receiver")
		}
		if err != nil {
			if next != nil || len(paths(t, err)) == 0 {
				t.Fatalf("%v with %v", next, err)
			}
			return
		}
		again, err := base.Apply(c)
		if err != nil || again.Digest() != next.Digest() || next.Number() != base.Number()+1 {
			t.Fatalf("applied again: %v, %v", again, err)
		}
		route(t, next)
		roundTrip(t, base, next)
		roundTrip(t, next, base)
	})
}

// route sends one request to each endpoint.
func route(t *testing.T, e *Epoch) {
	t.Helper()
	p := NewPicker(PickerConfig{})
	p.SetEpoch(e)
	for _, ep := range e.Endpoints() {
		pl, err := e.Map(&Request{Endpoint: ep.Name, Text: &prefix.Text{Bytes: []byte("hello")}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Pick(&pl, nil, 1, epochStart)
		if (err == nil) != (pl.Home() != "") {
			t.Fatalf("home %q, %v", pl.Home(), err)
		}
		if err == nil {
			l.Release()
		}
	}
}

// roundTrip checks that Diff finds the way from one fleet to another.
func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, from, to *Epoch,
) {
	t.Helper()
	made, err := from.Apply(Diff(from, to.Endpoints(), to.Backends()))
	if err != nil {
		t.Fatalf("the difference cannot be applied: %v", err)
	}
	want, got := to.Backends(), made.Backends()
	for i := range want {
		old := slices.IndexFunc(from.backends, func(b Backend) bool { return b.ID == want[i].ID && b.URL == want[i].URL })
		if want[i].State == Joining && old >= 0 && from.backends[old].State == Active {
			want[i].State = Active
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Backend{}, "Incarnation")); diff != "" {
		t.Fatalf("backends (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(to.Endpoints(), made.Endpoints(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("endpoints (-want +got):\n%s", diff)
	}
	if c := Diff(made, to.Endpoints(), to.Backends()); !cmp.Equal(c, Change{}) {
		t.Fatalf("a second difference: %+v", c)
	}
}

func TestDiff(t *testing.T) {
	e := fleet(t, 3, policy())
	back := e.Backends()
	wanted := []Backend{back[0], back[1], backend(5)}
	wanted[0].State = Joining // as a configuration file says it
	wanted[1].Weight = 2
	wanted[2].Variant = ""
	ep := endpoint("demo")
	c := Diff(e, []Endpoint{ep}, wanted)
	wanted[2].Variant = "AllTraffic"
	want := Change{PutBackends: wanted[1:], RemoveBackends: []string{"gpu-2"}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c = Diff(e, nil, nil)
	want = Change{RemoveEndpoints: []string{"demo"}, RemoveBackends: []string{"gpu-0", "gpu-1", "gpu-2"}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
