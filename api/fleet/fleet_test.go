package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/api/strict"
	"github.com/warmring/warmring/routing"
)

// fleets draws fleets that are valid alone.
func fleets() *rapid.Generator[Fleet] {
	return rapid.Custom(func(t *rapid.T) Fleet {
		var f Fleet
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"e1", "e2", "e3"}), 1, 3, rapid.ID).Draw(t, "endpoints") {
			e := Endpoint{Name: name}
			for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"v1", "v2"}), 0, 2, rapid.ID).Draw(t, "variants") {
				r := Routing{Strategy: routing.PrefixAware, PrefixLength: PrefixLength(rapid.SampledFrom([]int{0, 1024}).Draw(t, "length"))}
				e.Variants = append(e.Variants, Variant{Name: v, Weight: 1, Routing: r})
			}
			f.Endpoints = append(f.Endpoints, e)
		}
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 6, rapid.ID).Draw(t, "backends") {
			b := Backend{URL: fmt.Sprintf("http://h:%d", n), Endpoint: rapid.SampledFrom(f.Endpoints).Draw(t, "endpoint").Name, Weight: 1}
			if rapid.Bool().Draw(t, "named") {
				b.ID = fmt.Sprintf("gpu-%d", n)
			}
			f.Backends = append(f.Backends, b)
		}
		return f
	})
}

func epochOf(t *rapid.T, f Fleet) *routing.Epoch {
	e, err := routing.NewEpoch(1, 1).Apply(f.Change(routing.NewEpoch(1, 1), routing.Active, false))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Applying a fleet twice changes nothing the second time, whatever was there, and what it names is
// there after it.
func TestChangeConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, wanted := epochOf(t, fleets().Draw(t, "was")), fleets().Draw(t, "wanted")
		prune := rapid.Bool().Draw(t, "prune")
		is, err := was.Apply(wanted.Change(was, routing.Joining, prune))
		if err != nil && !prune && strings.Contains(err.Error(), "has no variant") {
			t.Skip("backends that are not named would lose their variant")
		}
		if err != nil {
			t.Fatal(err)
		}
		if again := wanted.Change(is, routing.Joining, prune); !empty(again) {
			t.Fatalf("again: %+v", again)
		}
		_, backends := wanted.Routing(routing.Joining)
		there := map[string]routing.Backend{}
		for _, b := range is.Backends() {
			there[b.ID] = b
		}
		for _, b := range backends {
			if got := there[b.ID]; got.URL != b.URL || got.State == routing.Draining {
				t.Fatalf("wanted %+v, got %+v", b, got)
			}
		}
		for _, b := range was.Backends() {
			if _, stays := there[b.ID]; !stays && !prune {
				t.Fatalf("%s left without prune", b.ID)
			}
		}
	})
}

func empty(c routing.Change) bool {
	return len(c.PutEndpoints)+len(c.RemoveEndpoints)+len(c.PutBackends)+len(c.RemoveBackends)+len(c.Drain) == 0
}

// What the JSON encoder writes, the strict decoder reads.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := fleets().Draw(t, "fleet")
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Fleet
		if err := strict.JSON(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		wantE, wantB := want.Routing(routing.Active)
		gotE, gotB := got.Routing(routing.Active)
		if diff := cmp.Diff(wantE, gotE) + cmp.Diff(wantB, gotB); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPruneLeavesWhatOthersList(t *testing.T) {
	e, err := routing.NewEpoch(1, 1).Apply(routing.Change{
		PutEndpoints: []routing.Endpoint{Endpoint{Name: "a"}.Routing(), Endpoint{Name: "b"}.Routing()},
		PutBackends: []routing.Backend{
			{ID: "hand", URL: "http://h:1", Endpoint: "a", Variant: "main", Weight: 1},
			{ID: "dns", URL: "http://h:2", Endpoint: "a", Variant: "main", Weight: 1, Source: "dns:gpus"},
			{ID: "lost", URL: "http://h:3", Endpoint: "b", Variant: "main", Weight: 1, Source: "lease"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := Fleet{Endpoints: []Endpoint{{Name: "a"}}}.Change(e, routing.Joining, true)
	want := routing.Change{RemoveEndpoints: []string{"b"}, RemoveBackends: []string{"lost"}, Drain: []string{"hand"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Where an endpoint is not named it is the file's only one, else the cluster's only one.
func TestTheOnlyEndpoint(t *testing.T) {
	x, y := Endpoint{Name: "x"}, Endpoint{Name: "y"}.Routing()
	for _, c := range []struct {
		own    []Endpoint
		others []routing.Endpoint
		want   string
	}{
		{[]Endpoint{x}, nil, "x"},
		{[]Endpoint{x}, []routing.Endpoint{y}, "x"},
		{nil, []routing.Endpoint{y}, "y"},
		{nil, []routing.Endpoint{x.Routing(), y}, ""},
		{[]Endpoint{x, {Name: "y"}}, nil, ""},
		{[]Endpoint{x}, []routing.Endpoint{x.Routing()}, "x"},
	} {
		_, backends := Fleet{Endpoints: c.own, Backends: []Backend{{URL: "http://h:1"}}}.Routing(routing.Joining, c.others...)
		if backends[0].Endpoint != c.want || (c.want != "") != (backends[0].Variant == "main") {
			t.Errorf("%+v: %+v", c, backends[0])
		}
	}
}

// A model server has one address, however people write it.
func TestAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"http://h:8000":     "http://h:8000",
		"http://h:8000/":    "http://h:8000",
		"http://h":          "http://h:80",
		"https://h/":        "https://h:443",
		"http://[::1]":      "http://[::1]:80",
		"http://[::1]:8000": "http://[::1]:8000",
		"http://h:8000/v1":  "http://h:8000/v1",
		"http://u:p@h":      "http://u:p@h",
		"ftp://h":           "ftp://h",
		"h:8000":            "h:8000",
		"http://":           "http://",
		"":                  "",
	} {
		b := Backend{URL: url}.Routing(nil, routing.Active)
		if b.URL != want {
			t.Errorf("%q is %q, want %q", url, b.URL, want)
		}
	}
	err := Fleet{Endpoints: []Endpoint{{Name: "x"}}, Backends: []Backend{{URL: "http://h", Weight: 1}, {ID: "b", URL: "http://h:80/", Weight: 1}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), `backends[1].url: "http://h:80/" is the address of backends[0] too`) {
		t.Errorf("got %v", err)
	}
}

func TestNoErrorShowsAPassword(t *testing.T) {
	b := Backend{URL: "http://me:secret@h:1", Weight: 1}
	err := Fleet{Endpoints: []Endpoint{{Name: "x"}}, Backends: []Backend{b, b}}.Validate()
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "backends[h:1].url") {
		t.Errorf("got %v", err)
	}
}

func TestValidateNamesEveryField(t *testing.T) {
	err := Fleet{
		Endpoints: []Endpoint{{Name: "x", Variants: []Variant{{Name: "v", Weight: 1, Routing: Routing{Strategy: "BEST"}}}}},
		Backends:  []Backend{{URL: "http://h:1", Weight: 1}, {ID: "b", URL: "http://h:1"}, {Weight: 1}},
	}.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{
		`backends[1].url: "http://h:1" is the address of backends[0] too`, `endpoints[x].variants[v].routing.strategy: "BEST"`,
		"backends[b].weight: 0", `backends[#2].url: ""`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in:\n%v", want, err)
		}
	}
	if _, ok := errors.AsType[*routing.ChangeError](err); !ok {
		t.Errorf("%T", err)
	}
}
