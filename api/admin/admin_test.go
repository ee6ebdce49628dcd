package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/routing"
)

const chat = `{"model":"llama","messages":[{"role":"user","content":"hello"}]}`

func fleetOf(t *testing.T) *routing.Picker {
	t.Helper()
	e, err := routing.NewEpoch(1, 42).Apply(routing.Change{
		PutEndpoints: []routing.Endpoint{{
			Name: "llama", Aliases: []string{"small"},
			Variants: []routing.Variant{
				{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}},
				{Name: "green", Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 8}},
			},
		}},
		PutBackends: []routing.Backend{
			{ID: "a", URL: "http://10.0.0.1:8000", Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active},
			{ID: "b", URL: "http://10.0.0.2:8000", Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active},
			{ID: "c", URL: "http://10.0.0.3:8000", Endpoint: "llama", Variant: "green", Weight: 1, MaxInflight: 5},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := routing.NewPicker(routing.PickerConfig{})
	p.SetEpoch(e)
	return p
}

func newAdmin(t *testing.T, cfg Config, change func(*Deps)) *Admin {
	t.Helper()
	d := Deps{Picker: fleetOf(t), Log: slog.New(slog.DiscardHandler), Router: "r1", Version: "v0", Now: func() time.Time { return time.Unix(100, 0) }}
	if change != nil {
		change(&d)
	}
	a, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask sends a request and decodes the answer into v, unless it is nil.
func ask(t *testing.T, a *Admin, method, target, body string, v any, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			t.Fatalf("%s: %v in %s", target, err, w.Body)
		}
	}
	return w
}

func TestStatus(t *testing.T) {
	a := newAdmin(t, Default(), func(d *Deps) {
		d.Queued = func() int { return 4 }
		d.Ready = func() error { return errors.New("leaving") }
	})
	p := a.deps.Picker.(*routing.Picker)
	place, err := p.Epoch().Map(&routing.Request{Endpoint: "llama"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Pick(&place, nil, 0, time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	var got Status
	ask(t, a, "GET", "/admin/v1/status", "", &got)
	if got.Digest == "" {
		t.Error("no digest")
	}
	got.Digest = ""
	want := Status{Router: "r1", Version: "v0", NotReady: "leaving", Epoch: "1.1", Endpoints: 1, Backends: 3, InFlight: 1, Queued: 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEpoch(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	var got Epoch
	ask(t, a, "GET", "/admin/v1/epoch", "", &got)
	if got.ID != "1.1" || got.Generation != 1 || got.Number != 1 || got.Endpoints != 1 || got.Backends != 3 || len(got.Digest) != 16 {
		t.Errorf("got %+v", got)
	}
}

func TestEndpoints(t *testing.T) {
	var got []EndpointStatus
	ask(t, newAdmin(t, Default(), nil), "GET", "/admin/v1/endpoints", "", &got)
	want := []EndpointStatus{{Name: "llama", Aliases: []string{"small"}, Variants: []VariantStatus{
		{Name: "blue", Weight: 1, Strategy: "PREFIX_AWARE", PrefixLength: "auto", Backends: 2, Active: 2},
		{Name: "green", Strategy: "PREFIX_AWARE", PrefixLength: "1024", ConcurrencyThreshold: 8, Backends: 1},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBackends(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	var got []BackendStatus
	w := ask(t, a, "GET", "/admin/v1/backends", "", &got)
	if len(got) != 3 || got[0].ID != "a" || got[0].State != "active" || got[2].State != "joining" || got[2].MaxInFlight != 5 || got[0].EjectedUntil != nil {
		t.Errorf("got %s", w.Body)
	}
}

func TestExplain(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	var got, again Explanation
	ask(t, a, "POST", "/admin/v1/explain?endpoint=llama&kind=chat", chat, &got)
	ask(t, a, "POST", "/admin/v1/explain", chat, &again)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Error(diff)
	}
	if got.Epoch != "1.1" || got.Endpoint != "llama" || got.Variant != "blue" || got.Strategy != "PREFIX_AWARE" || len(got.Key) != 16 ||
		got.TextBytes == 0 || got.Depth == 0 || len(got.Candidates) != 2 || got.Candidates[0].ID != got.Home || !got.Candidates[0].Eligible {
		t.Errorf("got %+v", got)
	}
	ask(t, a, "POST", "/admin/v1/explain", chat, &got, "X-Amzn-SageMaker-Target-Variant", "green")
	if got.Variant != "green" || got.Home != "" || len(got.Candidates) != 0 {
		t.Errorf("without an active backend: %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	for _, c := range []struct {
		method, target, body string
		status               int
		param, text          string
	}{
		{"POST", "/admin/v1/explain", "{", 400, "", "JSON"},
		{"POST", "/admin/v1/explain", `{"messages":3}`, 400, "messages", "array"},
		{"POST", "/admin/v1/explain?kind=x", chat, 400, "kind", "must be"},
		{"POST", "/admin/v1/explain?endpoint=x", chat, 404, "", "unknown endpoint"},
		{"GET", "/admin/v1/explain", "", 405, "", "POST"},
		{"POST", "/admin/v1/status", "", 405, "", "GET"},
		{"GET", "/admin/v1/nonsense", "", 404, "", "no such route"},
		{"GET", "/admin/v1/status/", "", 404, "", "no such route"},
		{"GET", "/metrics", "", 404, "", "no such route"},
		{"GET", "/debug/pprof/", "", 404, "", "no such route"},
	} {
		var got Error
		w := ask(t, a, c.method, c.target, c.body, &got)
		if w.Code != c.status || got.Error.Param != c.param || !strings.Contains(got.Error.Message, c.text) {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
		if c.status == 405 && w.Header().Get("Allow") != c.text {
			t.Errorf("%s: Allow is %q", c.target, w.Header().Get("Allow"))
		}
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.TokenFile, cfg.Pprof = file, true
	a := newAdmin(t, cfg, func(d *Deps) {
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	})
	for target, status := range map[string]int{"/admin/v1/status": 200, "/metrics": 418, "/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/none": 404} {
		for value, want := range map[string]int{"Bearer secret": status, "bearer secret": status, "Bearer secre": 401, "Basic secret": 401, "": 401} {
			if w := ask(t, a, "GET", target, "", nil, "Authorization", value); w.Code != want {
				t.Errorf("%s with %q: %d, want %d", target, value, w.Code, want)
			}
		}
	}
	for text, content := range map[string]string{"is empty": " \n", "admin.token_file": ""} {
		cfg.TokenFile = filepath.Join(t.TempDir(), "t")
		if content != "" {
			if err := os.WriteFile(cfg.TokenFile, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		cfg Config
		ok  bool
	}{
		{Default(), true},
		{Config{Listen: "x"}, false},
		{Config{Listen: ":9080"}, false},
		{Config{Listen: ":9080", Insecure: true}, true},
		{Config{Listen: ":9080", TokenFile: "t"}, true},
	} {
		if err := c.cfg.Validate(); (err == nil) != c.ok || err != nil && !strings.HasPrefix(err.Error(), "admin.listen: ") {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

// The document names every route of the API, and none that is not there.
func TestDocument(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	ask(t, a, "GET", "/admin/v1/openapi.json", "", &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	var want, got []string
	for _, r := range append(a.reads(), a.writes()...) {
		want = append(want, r.pattern)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method != "parameters" {
				got = append(got, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadsAnswer(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	for _, r := range a.reads() {
		method, path, _ := strings.Cut(r.pattern, " ")
		if w := ask(t, a, method, path, chat, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", r.pattern, w.Code, w.Body)
		}
	}
}

// The document's schemas have the members of the types that are sent.
func TestSchemas(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	ask(t, newAdmin(t, Default(), nil), "GET", "/admin/v1/openapi.json", "", &doc)
	for name, v := range map[string]any{
		"Status": Status{}, "Epoch": Epoch{}, "Endpoint": EndpointStatus{}, "Backend": BackendStatus{}, "Explanation": Explanation{}, "Error": Error{},
		"Snapshot": Snapshot{}, "Figures": Figures{}, "BackendTraffic": BackendTraffic{}, "Change": Change{},
		"ClusterStatus": ClusterStatus{}, "Member": Member{}, "EpochInfo": EpochInfo{}, "EpochChange": EpochChange{},
		"Written": Written{}, "Applied": Applied{}, "Leased": Leased{}, "Step": Step{}, "FieldChange": FieldChange{},
		"FleetSpec": fleet.Fleet{}, "EndpointSpec": fleet.Endpoint{}, "VariantSpec": fleet.Variant{}, "RoutingSpec": fleet.Routing{},
		"BackendSpec": fleet.Backend{}, "LeaseSpec": LeaseRequest{}, "WeightSpec": WeightRequest{},
	} {
		var want []string
		for field := range reflect.TypeOf(v).Fields() {
			tag, ok := field.Tag.Lookup("json")
			if !ok {
				tag = field.Tag.Get("yaml") // of a body that is only read
			}
			member, _, _ := strings.Cut(tag, ",")
			want = append(want, member)
		}
		slices.Sort(want)
		got := slices.Sorted(maps.Keys(doc.Components.Schemas[name].Properties))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
