package node

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/routing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func noEnv(string) string { return "" }

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

func load(t *testing.T, text string) Config {
	t.Helper()
	c, err := Load(strings.NewReader(text), noEnv, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryErrorIsReportedAtOnce(t *testing.T) {
	file, err := os.Open("testdata/wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := Load(file, env(map[string]string{"WARMRING_SHUTDOWN_DRAIN_DELAY": "soon"}), map[string]string{"admin.pprof": "maybe"})
	if err == nil {
		t.Fatal("a wrong file loads")
	}
	golden(t, "wrong.load.txt", err.Error()+"\n")
	if err = c.Validate(); err == nil {
		t.Fatal("a wrong configuration is valid")
	}
	golden(t, "wrong.validate.txt", err.Error()+"\n")
}

func TestBrokenFiles(t *testing.T) {
	for text, want := range map[string]string{
		"router: [":                     "not YAML: yaml: line 1",
		"router: {}\n---\napi: {}":      "line 3: the file: has a second document",
		"router: {}\n---\n[":            "not YAML",
		"- a\n- b":                      "line 1: the file: must hold fields",
		"api: 3":                        "line 1: api: must hold fields",
		"endpoints: {}":                 "line 1: endpoints: must be a list",
		"router: {name: a}\nrouter: {}": "line 2: router: set already on line 1",
		"api: {listen: {}}":             "line 1: api.listen: must be a single value",
		"admin: {pprof: yess}":          `line 1: admin.pprof: "yess" is not a boolean`,
		"api: {limits: {body: 1MB}}":    "line 1: api.limits.body: ",
	} {
		_, err := Load(strings.NewReader(text), noEnv, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// A backend without an endpoint belongs to the only one, and else to none.
func TestBackendOfNoEndpoint(t *testing.T) {
	err := load(t, "endpoints: [{name: a}, {name: b}]\nbackends: [{id: x, url: 'http://h:1'}]\n").Validate()
	if err == nil || err.Error() != "backends[x].endpoint: want the name of an endpoint; it may be left out where there is one alone" {
		t.Errorf("got %v", err)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	const file = "shutdown: {grace: 1s}\nrouter: {name: file}\nadmin: {pprof: true}\n"
	vars := map[string]string{"WARMRING_SHUTDOWN_GRACE": "2s", "WARMRING_ROUTER_NAME": "environment"}
	c, err := Load(strings.NewReader(file), env(vars), map[string]string{"shutdown.grace": "3s"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Shutdown.Grace != 3*time.Second || c.Router.Name != "environment" || !c.Admin.Pprof {
		t.Errorf("grace %s, name %s, pprof %v; want the flag's 3s, the variable's name, the file's true", c.Shutdown.Grace, c.Router.Name, c.Admin.Pprof)
	}
	if c.API.Listen != Default().API.Listen {
		t.Errorf("api.listen %q, want the default", c.API.Listen)
	}
}

func TestEmptyFilesSayNothing(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "router:\napi:\n---\n"} {
		c, err := Load(strings.NewReader(text), noEnv, nil)
		if diff := cmp.Diff(Default(), c); err != nil || diff != "" {
			t.Errorf("%q: %v, %s", text, err, diff)
		}
	}
}

func TestEveryLeafCanBeSet(t *testing.T) {
	c := Default()
	names, vars := map[string]bool{}, map[string]bool{}
	for _, leaf := range Leaves(&c) {
		if names[leaf.Path] || vars[leaf.Env] {
			t.Errorf("%s or %s is there twice", leaf.Path, leaf.Env)
		}
		names[leaf.Path], vars[leaf.Env] = true, true
		if text := leaf.String(); text != "" {
			if err := leaf.Set(text); err != nil {
				t.Errorf("%s does not take its own default: %v", leaf.Path, err)
			}
		}
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("setting the defaults changed something: %s", diff)
	}
	for _, path := range []string{"api.listen", "api.limits.body", "proxy.timeouts.first_byte", "telemetry.traces.sample", "shutdown.drain_delay", "admin.pprof"} {
		if !names[path] {
			t.Errorf("no leaf %s", path)
		}
	}
}

func TestShortFormsOfAFleet(t *testing.T) {
	c := load(t, `
endpoints:
  - name: demo
backends:
  - url: http://127.0.0.1:9001
  - {url: http://127.0.0.1:9002, weight: 2, max_inflight: 3, id: big}
`)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	endpoints, backends := c.fleet()
	wantEndpoints := []routing.Endpoint{{Name: "demo", Variants: []routing.Variant{
		{Name: "main", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}},
	}}}
	wantBackends := []routing.Backend{
		{ID: "127.0.0.1:9001", URL: "http://127.0.0.1:9001", Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active},
		{ID: "big", URL: "http://127.0.0.1:9002", Endpoint: "demo", Variant: "main", Weight: 2, MaxInflight: 3, State: routing.Active},
	}
	if diff := cmp.Diff(wantEndpoints, endpoints); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantBackends, backends); diff != "" {
		t.Error(diff)
	}
}

func TestLongFormOfAFleet(t *testing.T) {
	c := load(t, `
endpoints:
  - name: demo
    aliases: [llama]
    adapters: [sql]
    variants:
      - {name: a, weight: 3, routing: {strategy: PREFIX_AWARE, prefix_length: 2048, concurrency_threshold: 8}}
      - {name: b, routing: {strategy: RANDOM}}
backends:
  - {url: "http://127.0.0.1:9001", variant: b}
`)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	endpoints, backends := c.fleet()
	want := []routing.Variant{
		{Name: "a", Weight: 3, Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 2048, ConcurrencyThreshold: 8}},
		{Name: "b", Weight: 1, Policy: routing.Policy{Strategy: routing.Random}},
	}
	if diff := cmp.Diff(want, endpoints[0].Variants); diff != "" {
		t.Error(diff)
	}
	if backends[0].Variant != "b" {
		t.Errorf("variant %q, want b", backends[0].Variant)
	}
}

func TestAShownConfigurationLoadsAgain(t *testing.T) {
	c := load(t, "endpoints: [{name: demo, variants: [{name: a, routing: {prefix_length: 4096}}]}]\nbackends: [{url: 'http://h:1'}]\n")
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, load(t, string(text)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
}

func TestMaskedHidesPasswords(t *testing.T) {
	c := Default()
	c.Telemetry.Traces.Endpoint = "https://me:secret@collector:4318"
	text, err := yaml.Marshal(c.Masked())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret") || !strings.Contains(string(text), "me:xxxxx@collector") {
		t.Errorf("shown: %s", text)
	}
}

func FuzzLoad(f *testing.F) {
	wrong, err := os.ReadFile("testdata/wrong.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(wrong))
	f.Add("a: &a {b: *a}")
	f.Add("endpoints: [{name: demo}]\nbackends: [{url: 'http://h:1'}]\n")
	f.Fuzz(func(_ *testing.T, text string) {
		if c, err := Load(strings.NewReader(text), noEnv, nil); err == nil {
			_ = c.Validate() // must not panic, whatever was loaded
		}
	})
}
