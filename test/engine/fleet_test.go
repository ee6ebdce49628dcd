//go:build engine

package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const endpoint = "demo"

// site is the directory that install.sh fills.
type site string

func (s site) path(name string) string { return filepath.Join(string(s), name) }

func installed(t *testing.T) site {
	t.Helper()
	dir, err := filepath.Abs("../../build/engine")
	if err != nil {
		t.Fatal(err)
	}
	s := site(dir)
	if _, err := os.Stat(s.path("installed")); err != nil {
		t.Fatalf("run test/engine/install.sh, or make test-engine: %v", err)
	}
	return s
}

// backend is a model server as the router is told of it.
type backend struct{ id, url, name string }

func startEngines(t *testing.T, s site) []backend {
	t.Helper()
	fleet := make([]backend, engines)
	for i := range fleet {
		cmd := exec.Command("python3", "engine.py", s.path("model.gguf"))
		cmd.Env = append(os.Environ(), "PYTHONPATH="+s.path("site"))
		line := launch(t, cmd, `"url"`)
		var said struct{ URL, Engine string }
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		awaitOK(t, said.URL+"/health")
		fleet[i] = backend{fmt.Sprintf("engine-%d", i), said.URL, said.Engine}
	}
	return fleet
}

// startRouter returns the router's base URL. Each router has the same salt, so that the same prompts have the same
// homes in each.
func startRouter(t *testing.T, s site, f form, fleet []backend) string {
	t.Helper()
	dir := t.TempDir()
	var config strings.Builder
	fmt.Fprintf(&config, "router: {salt_file: %s}\napi: {listen: 127.0.0.1:0}\nadmin: {listen: 127.0.0.1:0}\ntelemetry: {log: {format: json}}\n", filepath.Join(dir, "salt"))
	fmt.Fprintf(&config, "endpoints:\n  - name: %s\n    variants: [{name: main, routing: {strategy: %s", endpoint, f.Strategy)
	if f.PrefixLength != "" {
		fmt.Fprintf(&config, ", prefix_length: %s, concurrency_threshold: 8", f.PrefixLength)
	}
	config.WriteString("}}]\nbackends:\n")
	for _, b := range fleet {
		fmt.Fprintf(&config, "  - {id: %s, url: %q, endpoint: %s}\n", b.id, b.url, endpoint)
	}
	for name, text := range map[string]string{"salt": "the same for every run", "warmring.yaml": config.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(s.path("../warmring"), "serve", "--config", filepath.Join(dir, "warmring.yaml"))
	line := launch(t, cmd, `"listening"`)
	var said struct{ API string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	awaitOK(t, "http://"+said.API+"/readyz")
	return "http://" + said.API
}

// draw returns prompts of which, in the form, every engine is the home of one: with a fixed prefix length nothing else decides
// where a prompt goes, and what is measured is the worth of a warm cache, not how evenly a few prompts fall on a few engines. It
// asks a router of the same salt and the same backend names, in front of servers that answer at once.
func draw(t *testing.T, s site, f form) []string {
	t.Helper()
	fleet := make([]backend, engines)
	for i := range fleet {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(server.Close)
		fleet[i] = backend{id: fmt.Sprintf("engine-%d", i), url: server.URL}
	}
	router := startRouter(t, s, f, fleet)
	taken := make(map[string]bool) // homes
	var drawn []string
	for number := 1; len(drawn) < prompts && number < 1000; number++ {
		q := question{prompt(number), "Who are you?"}
		resp := post(t, router, q)
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if home := resp.Header.Get("X-Warmring-Home"); !taken[home] {
			taken[home] = true
			drawn = append(drawn, q.system)
		}
	}
	if len(drawn) < prompts {
		t.Fatalf("of 1000 prompts only %d have homes of their own", len(drawn))
	}
	return drawn
}
