package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing/prefix"
)

// policy is a valid one.
func policy() Policy { return Policy{Strategy: PrefixAware, PrefixLength: 1024} }

func adaptive() Policy { return Policy{Strategy: PrefixAware} }

func endpoint(name string, change ...func(*Endpoint)) Endpoint {
	ep := Endpoint{Name: name, Variants: []Variant{{Name: "AllTraffic", Weight: 1, Policy: policy()}}}
	for _, f := range change {
		f(&ep)
	}
	return ep
}

func TestApplyErrors(t *testing.T) {
	e := fleet(t, 2, policy())
	put := func(change func(*Backend)) Change {
		b := backend(3)
		change(&b)
		return Change{PutBackends: []Backend{b}}
	}
	putVariant := func(change func(*Variant)) Change {
		return Change{PutEndpoints: []Endpoint{endpoint("other", func(ep *Endpoint) { change(&ep.Variants[0]) })}}
	}
	tests := []struct {
		name  string
		c     Change
		paths []string
	}{
		{"unknown endpoint", put(func(b *Backend) { b.Endpoint = "no" }), []string{"backends[gpu-3].endpoint"}},
		{"unknown variant", put(func(b *Backend) { b.Variant = "no" }), []string{"backends[gpu-3].variant"}},
		{"no url", put(func(b *Backend) { b.URL = "" }), []string{"backends[gpu-3].url"}},
		{"scheme", put(func(b *Backend) { b.URL = "ftp://h:1" }), []string{"backends[gpu-3].url"}},
		{"path", put(func(b *Backend) { b.URL = "http://h:1/v1" }), []string{"backends[gpu-3].url"}},
		{"no port", put(func(b *Backend) { b.URL = "http://h" }), []string{"backends[gpu-3].url"}},
		{"port 0", put(func(b *Backend) { b.URL = "http://h:0" }), []string{"backends[gpu-3].url"}},
		{"port range", put(func(b *Backend) { b.URL = "http://h:65536" }), []string{"backends[gpu-3].url"}},
		{"user", put(func(b *Backend) { b.URL = "http://u:p@h:80" }), []string{"backends[gpu-3].url"}},
		{"no host", put(func(b *Backend) { b.URL = "http://:80" }), []string{"backends[gpu-3].url"}},
		{"bare IPv6", put(func(b *Backend) { b.URL = "http://::1:80" }), []string{"backends[gpu-3].url"}},
		{"newline", put(func(b *Backend) { b.URL = "http://h\r\n:80" }), []string{"backends[gpu-3].url"}},
		{"weight 0", put(func(b *Backend) { b.Weight = 0 }), []string{"backends[gpu-3].weight"}},
		{"weight NaN", put(func(b *Backend) { b.Weight = math.NaN() }), []string{"backends[gpu-3].weight"}},
		{"weight Inf", put(func(b *Backend) { b.Weight = math.Inf(1) }), []string{"backends[gpu-3].weight"}},
		{"cap", put(func(b *Backend) { b.MaxInflight = -1 }), []string{"backends[gpu-3].max_inflight"}},
		{"state", put(func(b *Backend) { b.State = 9 }), []string{"backends[gpu-3].state"}},
		{"id", put(func(b *Backend) { b.ID = "" }), []string{"backends[].id"}},
		{"id with space", put(func(b *Backend) { b.ID = "a b" }), []string{"backends[a b].id"}},
		{
			"all at once", put(func(b *Backend) { b.URL, b.Weight, b.Endpoint = "x", -1, "no" }),
			[]string{"backends[gpu-3].url", "backends[gpu-3].weight", "backends[gpu-3].endpoint"},
		},
		{"put twice", Change{PutBackends: []Backend{backend(3), backend(3)}}, []string{"backends[gpu-3]"}},
		{"put and removed", Change{PutBackends: []Backend{backend(1)}, RemoveBackends: []string{"gpu-1"}}, []string{"backends[gpu-1]"}},
		{"remove nothing", Change{RemoveBackends: []string{"gpu-9"}}, []string{"backends[gpu-9]"}},
		{"drain nothing", Change{Drain: []string{"gpu-9"}}, []string{"backends[gpu-9]"}},
		{"remove no endpoint", Change{RemoveEndpoints: []string{"no"}}, []string{"endpoints[no]"}},
		{"endpoint in use", Change{RemoveEndpoints: []string{"demo"}}, []string{"backends[gpu-0].endpoint", "backends[gpu-1].endpoint"}},
		{"endpoint twice", Change{PutEndpoints: []Endpoint{endpoint("a"), endpoint("a")}}, []string{"endpoints[a]"}},
		{"endpoint name", Change{PutEndpoints: []Endpoint{endpoint("a/b")}}, []string{"endpoints[a/b].name"}},
		{"endpoint hyphen", Change{PutEndpoints: []Endpoint{endpoint("a-")}}, []string{"endpoints[a-].name"}},
		{"endpoint long", Change{PutEndpoints: []Endpoint{endpoint(strings.Repeat("a", 64))}}, []string{"endpoints[" + strings.Repeat("a", 64) + "].name"}},
		{"no variant", Change{PutEndpoints: []Endpoint{{Name: "a"}}}, []string{"endpoints[a].variants"}},
		{"variant name", putVariant(func(v *Variant) { v.Name = "" }), []string{"endpoints[other].variants[].name"}},
		{"weights sum to 0", putVariant(func(v *Variant) { v.Weight = 0 }), []string{"endpoints[other].variants"}},
		{
			"variant weight", putVariant(func(v *Variant) { v.Weight = -1 }),
			[]string{"endpoints[other].variants[AllTraffic].weight", "endpoints[other].variants"},
		},
		{"strategy", putVariant(func(v *Variant) { v.Policy.Strategy = "ROUND_ROBIN" }), []string{"endpoints[other].variants[AllTraffic].routing.strategy"}},
		{"short prefix", putVariant(func(v *Variant) { v.Policy.PrefixLength = 1023 }), []string{"endpoints[other].variants[AllTraffic].routing.prefix_length"}},
		{"long prefix", putVariant(func(v *Variant) { v.Policy.PrefixLength = 65537 }), []string{"endpoints[other].variants[AllTraffic].routing.prefix_length"}},
		{"threshold", putVariant(func(v *Variant) { v.Policy.ConcurrencyThreshold = 1025 }), []string{"endpoints[other].variants[AllTraffic].routing.concurrency_threshold"}},
		{"alias taken", Change{PutEndpoints: []Endpoint{endpoint("a", func(ep *Endpoint) { ep.Aliases = []string{"demo"} })}}, []string{"endpoints[a].aliases"}},
		{"adapter taken", Change{PutEndpoints: []Endpoint{
			endpoint("a", func(ep *Endpoint) { ep.Adapters = []string{"lora"} }),
			endpoint("b", func(ep *Endpoint) { ep.Adapters = []string{"lora"} }),
		}}, []string{"endpoints[b].adapters"}},
		{
			"alias text",
			Change{PutEndpoints: []Endpoint{endpoint("a", func(ep *Endpoint) { ep.Aliases = []string{"-x", "é"} })}},
			[]string{"endpoints[a].aliases", "endpoints[a].aliases"},
		},
		{
			"hot run",
			Change{Hot: &HotTable{Runs: []Run{{First: 1}, {First: 1, Length: 1, Servers: 2}}}},
			[]string{"hot.runs[0].length", "hot.runs[0].servers", "hot.runs[1].first"},
		},
		{"hot table too long", Change{Hot: &HotTable{Runs: make([]Run, 65)}}, []string{"hot.runs"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			digest := e.sum()
			next, err := e.Apply(tt.c)
			if next != nil {
				t.Error("an epoch in spite of the error")
			}
			if diff := cmp.Diff(tt.paths, paths(t, err)); diff != "" {
				t.Errorf("paths (-want +got):\n%s%v", diff, err)
			}
			if e.sum() != digest {
				t.Error("the epoch was changed")
			}
		})
	}
}

// paths returns the paths of the ChangeErrors that err joins.
func paths(t interface {
	Helper()
	Fatalf(string, ...any)
}, err error,
) []string {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not a joined error: %v", err)
	}
	var out []string
	for _, err := range joined.Unwrap() {
		var ce *ChangeError
		if !errors.As(err, &ce) || ce.Msg == "" {
			t.Fatalf("not a ChangeError: %v", err)
		}
		out = append(out, ce.Path)
	}
	return out
}

func TestURLsThatAreFine(t *testing.T) {
	for _, url := range []string{"http://h:1", "https://gpu-1.svc.local:443", "http://10.0.0.1:65535", "http://[::1]:8000", "http://[fe80::1%eth0]:80"} {
		if msg := checkURL(url); msg != "" {
			t.Errorf("%s: %s", url, msg)
		}
	}
}

func TestApply(t *testing.T) {
	e := fleet(t, 3, policy())
	if e.ID() != "1.1" || e.Number() != 1 || e.Generation() != 1 {
		t.Errorf("ID %s", e.ID())
	}
	moved := backend(1)
	moved.URL = "http://elsewhere:1"
	same := backend(0)
	same.Weight, same.Variant, same.Incarnation = 2, "", 99
	next := apply(t, e, Change{
		PutBackends: []Backend{moved, same}, RemoveBackends: []string{"gpu-2"}, Drain: []string{"gpu-0"},
		Hot: &HotTable{Runs: []Run{{First: 1, Last: 2, Length: 3, Servers: 2}}},
	})
	want := []Backend{
		{ID: "gpu-0", URL: backend(0).URL, Endpoint: "demo", Variant: "AllTraffic", Weight: 2, State: Draining, Incarnation: 1},
		{ID: "gpu-1", URL: "http://elsewhere:1", Endpoint: "demo", Variant: "AllTraffic", Weight: 1, State: Active, Incarnation: 2},
	}
	if diff := cmp.Diff(want, next.Backends()); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	if next.Number() != 2 || next.Hot() == nil || e.Hot() != nil || len(e.Backends()) != 3 {
		t.Errorf("next %v %v, before %v", next, next.Hot(), e)
	}
	// It comes back after it was removed: above all its earlier incarnations.
	back := apply(t, next, Change{PutBackends: []Backend{backend(2)}})
	if got := back.Backends()[2]; got.ID != "gpu-2" || got.Incarnation != 3 {
		t.Errorf("came back as %+v", got)
	}
	if back.Hot() == nil {
		t.Error("the hot table was lost")
	}
}

func TestCopiesAreTheCallers(t *testing.T) {
	aliases := []string{"model"}
	e := apply(t, NewEpoch(1, 1), Change{PutEndpoints: []Endpoint{{
		Name: "demo", Aliases: aliases, Variants: []Variant{{Name: "v", Weight: 1, Policy: policy()}},
	}}})
	digest := e.sum()
	aliases[0] = "changed"
	e.Endpoints()[0].Variants[0].Weight = 5
	e.Endpoints()[0].Aliases[0] = "changed"
	if e.sum() != digest {
		t.Error("the epoch shares memory with its callers")
	}
}

// The digest tells apart all that the map depends on, and nothing else.
func TestDigest(t *testing.T) {
	full := Change{
		PutEndpoints: []Endpoint{
			endpoint("b", func(ep *Endpoint) { ep.Aliases, ep.Adapters = []string{"x"}, []string{"y"} }),
			endpoint("demo"),
		},
		PutBackends: []Backend{backend(0), backend(1)},
	}
	base := apply(t, NewEpoch(1, 1), full)
	reversed := full
	reversed.PutEndpoints = []Endpoint{full.PutEndpoints[1], full.PutEndpoints[0]}
	reversed.PutBackends = []Backend{full.PutBackends[1], full.PutBackends[0]}
	if got := apply(t, NewEpoch(1, 1), reversed); got.Digest() != base.Digest() {
		t.Error("the order of a change shows in the digest")
	}
	seen := map[uint64]string{base.Digest(): "base"}
	differ := func(name string, e *Epoch) {
		t.Helper()
		if other, ok := seen[e.Digest()]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[e.Digest()] = name
	}
	differ("generation", apply(t, NewEpoch(2, 1), full))
	differ("salt", apply(t, NewEpoch(1, 2), full))
	differ("number", apply(t, base, Change{}))
	differ("empty hot table", apply(t, NewEpoch(1, 1), with(full, func(c *Change) { c.Hot = &HotTable{} })))
	differ("hot table", apply(t, NewEpoch(1, 1), with(full, func(c *Change) { c.Hot = &HotTable{Runs: []Run{{Length: 1, Servers: 2}}} })))
	for name, f := range map[string]func(*Backend){
		"url": func(b *Backend) { b.URL = "http://x:1" }, "weight": func(b *Backend) { b.Weight = 2 },
		"state": func(b *Backend) { b.State = Joining }, "cap": func(b *Backend) { b.MaxInflight = 1 },
		"id": func(b *Backend) { b.ID = "z" },
	} {
		differ(name, apply(t, NewEpoch(1, 1), with(full, func(c *Change) { f(&c.PutBackends[0]) })))
	}
	for name, f := range map[string]func(*Endpoint){
		"alias":            func(ep *Endpoint) { ep.Aliases[0] = "z" },
		"alias is adapter": func(ep *Endpoint) { ep.Aliases, ep.Adapters = nil, []string{"x", "y"} },
		"strategy":         func(ep *Endpoint) { ep.Variants[0].Policy.Strategy = Random },
		"length":           func(ep *Endpoint) { ep.Variants[0].Policy.PrefixLength = 2048 },
		"threshold":        func(ep *Endpoint) { ep.Variants[0].Policy.ConcurrencyThreshold = 1 },
		"variant weight":   func(ep *Endpoint) { ep.Variants[0].Weight = 3 },
	} {
		differ(name, apply(t, NewEpoch(1, 1), with(full, func(c *Change) { f(&c.PutEndpoints[0]) })))
	}
}

// with returns a deep copy of the change, changed.
func with(c Change, f func(*Change)) Change {
	for i := range c.PutEndpoints {
		c.PutEndpoints = append(c.PutEndpoints[:i:i], append([]Endpoint{cloneEndpoint(c.PutEndpoints[i])}, c.PutEndpoints[i+1:]...)...)
	}
	c.PutBackends = append([]Backend(nil), c.PutBackends...)
	f(&c)
	return c
}

func TestSaltStaysSecret(t *testing.T) {
	const salt = 1234567890123456789
	e := apply(t, NewEpoch(1, salt), Change{PutEndpoints: []Endpoint{endpoint("demo")}})
	js, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	pl, err := e.Map(&Request{Endpoint: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		string(js), fmt.Sprint(e), fmt.Sprintf("%v %+v %s", e, e, e), fmt.Sprintf("%#v", e),
		fmt.Sprintf("%+v", pl), fmt.Sprintf("%+v", &Lease{Epoch: e}),
	} {
		if strings.Contains(s, fmt.Sprint(salt)) || strings.Contains(s, fmt.Sprintf("%x", salt)) {
			t.Errorf("the salt is in %q", s)
		}
	}
}

func TestResolve(t *testing.T) {
	single := apply(t, NewEpoch(1, 1), Change{PutEndpoints: []Endpoint{endpoint("demo", func(ep *Endpoint) {
		ep.Aliases, ep.Adapters = []string{"meta-llama/Llama-3.1-70B"}, []string{"sql:v2"}
	})}})
	double := apply(t, single, Change{PutEndpoints: []Endpoint{endpoint("other")}})
	tests := []struct {
		e                    *Epoch
		model, name, adapter string
		err                  error
	}{
		{single, "demo", "demo", "", nil},
		{single, "meta-llama/Llama-3.1-70B", "demo", "", nil},
		{single, "sql:v2", "demo", "sql:v2", nil},
		{single, "unheard-of", "demo", "unheard-of", nil},
		{single, "", "demo", "", nil},
		{double, "other", "other", "", nil},
		{double, "sql:v2", "demo", "sql:v2", nil},
		{double, "unheard-of", "", "", ErrUnknownModel},
		{double, "", "", "", ErrUnknownModel},
		{NewEpoch(1, 1), "demo", "", "", ErrNoEndpoint},
	}
	for _, tt := range tests {
		name, adapter, err := tt.e.Resolve(tt.model)
		if name != tt.name || adapter != tt.adapter || !errors.Is(err, tt.err) {
			t.Errorf("Resolve(%q) of %v = %q, %q, %v", tt.model, tt.e, name, adapter, err)
		}
	}
	if !single.Has("demo") || single.Has("sql:v2") || single.Has("") {
		t.Error("Has")
	}
}

func TestTextLimit(t *testing.T) {
	e := apply(t, NewEpoch(1, 1), Change{PutEndpoints: []Endpoint{
		endpoint("auto", func(ep *Endpoint) { ep.Variants[0].Policy = adaptive() }),
		endpoint("short", func(ep *Endpoint) { ep.Variants[0].Policy.PrefixLength = 2000 }),
		endpoint("random", func(ep *Endpoint) { ep.Variants[0].Policy.Strategy = Random }),
	}})
	for name, want := range map[string][2]int{
		"auto": {4096, prefix.MaxText}, "short": {2000, 8000}, "random": {4096, 4096}, "": {4096, prefix.MaxText},
	} {
		if usual, most := e.TextLimit(name, false); usual != want[0] || most != want[1] {
			t.Errorf("TextLimit(%q) = %d, %d; want %d", name, usual, most, want)
		}
	}
	for name, want := range map[string]int{"auto": prefix.MaxText, "short": 2000} {
		if usual, _ := e.TextLimit(name, true); usual != want {
			t.Errorf("counted, TextLimit(%q) = %d; want %d", name, usual, want)
		}
	}
	e = apply(t, e, Change{RemoveEndpoints: []string{"auto"}, PutEndpoints: []Endpoint{endpoint("long", func(ep *Endpoint) { ep.Variants[0].Policy.PrefixLength = MaxPrefixLength })}})
	if usual, most := e.TextLimit("", false); usual != MaxPrefixLength || most != prefix.MaxText {
		t.Errorf("longest %d, %d; want %d, %d", usual, most, MaxPrefixLength, prefix.MaxText)
	}
}

func TestStateText(t *testing.T) {
	for _, s := range []State{Joining, Active, Draining} {
		text, err := s.MarshalText()
		var back State
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v: %s, %v, back as %v", s, text, err, back)
		}
	}
	if _, err := State(7).MarshalText(); err == nil {
		t.Error("an undefined state has a text")
	}
	if new(State).UnmarshalText([]byte("gone")) == nil {
		t.Error("an unknown text has a state")
	}
}
