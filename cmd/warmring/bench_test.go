package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// tuned is an admin listener that keeps one endpoint's policies.
type tuned struct {
	mu       sync.Mutex // guards what follows
	endpoint admin.EndpointStatus
	puts     []string            // the policies, after each write
	put      chan struct{}       // gets one value a write, if there is room
	refuse   func(puts int) bool // whether a write fails
}

func newTuned() *tuned {
	return &tuned{put: make(chan struct{}, 100), endpoint: admin.EndpointStatus{Name: "demo", Aliases: []string{"llama"}, Variants: []admin.VariantStatus{
		{Name: "main", Weight: 1, Strategy: "PREFIX_AWARE", PrefixLength: "2048", ConcurrencyThreshold: 9},
		{Name: "green", Weight: 0.5, Strategy: "RANDOM"},
	}}}
}

const formerPolicies = "main PREFIX_AWARE:2048 (threshold 9), green RANDOM"

func (a *tuned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var answer any
	switch r.Method + " " + r.URL.Path {
	case "GET /admin/v1/endpoints":
		answer = []admin.EndpointStatus{a.endpoint}
	case "GET /admin/v1/backends":
		answer = []admin.BackendStatus{{ID: "gpu-0", Endpoint: "demo", State: "active"}, {ID: "other", Endpoint: "x", State: "active"}}
	case "GET /admin/v1/members":
		answer = []admin.Member{{Epoch: "1.5"}, {Epoch: "1.6"}}
	case "PUT /admin/v1/fleet":
		if a.refuse != nil && a.refuse(len(a.puts)) {
			http.Error(w, `{"error":{"message":"read only"}}`, http.StatusForbidden)
			return
		}
		a.apply(r)
		answer = admin.Applied{Epoch: "1.5"}
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may have left
}

func (a *tuned) apply(r *http.Request) {
	var f fleet.Fleet
	if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
		a.puts = append(a.puts, err.Error())
		return
	}
	e := f.Endpoints[0]
	now := admin.EndpointStatus{Name: e.Name, Aliases: e.Aliases}
	for _, v := range e.Variants {
		s := admin.VariantStatus{Name: v.Name, Weight: v.Weight, Strategy: string(v.Routing.Strategy), ConcurrencyThreshold: v.Routing.ConcurrencyThreshold}
		if s.Strategy == "PREFIX_AWARE" {
			length, _ := v.Routing.PrefixLength.MarshalText()
			s.PrefixLength = string(length)
		}
		now.Variants = append(now.Variants, s)
	}
	a.endpoint = now
	a.puts = append(a.puts, policiesOf(now))
	select {
	case a.put <- struct{}{}:
	default:
	}
}

// benchArgs names a model server and an admin listener.
func benchArgs(t *testing.T, a *tuned, more string) []string {
	t.Helper()
	cfg := modelserver.Default()
	cfg.Speed = 50
	listener := httptest.NewServer(a)
	t.Cleanup(listener.Close)
	return append([]string{"bench", "--url", mstest.Start(t, cfg).URL, "--admin", listener.URL}, strings.Fields(more)...)
}

func TestBenchComparesStrategiesAndRestores(t *testing.T) {
	a := newTuned()
	before := a.endpoint
	dir := t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "b.json"), filepath.Join(dir, "b.html")
	code, out, errOut := cli(t, "", benchArgs(t, a, "--workload a2 --scale 0.1 --clients 3 --duration 500ms --strategies RANDOM,PREFIX_AWARE:4096,PREFIX_AWARE:auto --json "+
		jsonFile+" --html "+htmlFile)...)
	if code != exitDone || strings.Count(errOut, "begins") != 3 || strings.Contains(errOut, "\x1b") || strings.Contains(out, "\x1b") {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	for _, name := range []string{"RANDOM", "PREFIX_AWARE:4096", "PREFIX_AWARE:auto"} {
		if !strings.Contains(out, "  "+name+" ") {
			t.Errorf("no row for %s in\n%s", name, out)
		}
	}
	want := []string{"main RANDOM, green RANDOM", "main PREFIX_AWARE:4096, green PREFIX_AWARE:4096", "main PREFIX_AWARE:auto, green PREFIX_AWARE:auto", formerPolicies}
	if diff := cmp.Diff(want, a.puts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, a.endpoint); diff != "" {
		t.Errorf("the endpoint is not as before: %s", diff)
	}
	text, err := os.ReadFile(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	var saved struct {
		Runs []struct {
			Requests, Errors int
			Hit              float64
			P50              float64 `json:"p50_ms"`
		}
	}
	if err := json.Unmarshal(text, &saved); err != nil || len(saved.Runs) != 3 || saved.Runs[0].Requests < 3 || saved.Runs[0].Errors > 0 || saved.Runs[0].P50 <= 0 {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := os.ReadFile(htmlFile); err != nil || !bytes.HasPrefix(text, []byte("<!doctype html>")) {
		t.Errorf("%v: %.100s", err, text)
	}
}

func TestBenchRestoresWhenStopped(t *testing.T) {
	a := newTuned()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := benchArgs(t, a, "--duration 1h --scale 0.1 --strategies RANDOM,LEAST_OUTSTANDING_REQUESTS")
	var out, errOut bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- execute(ctx, args, strings.NewReader(""), &out, &errOut) }()
	<-a.put
	cancel()
	select {
	case code := <-done:
		if code != exitDone && !strings.Contains(errOut.String(), "no request was answered") {
			t.Errorf("exit code %d: %s", code, errOut.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
	if diff := cmp.Diff([]string{"main RANDOM, green RANDOM", formerPolicies}, a.puts); diff != "" {
		t.Error(diff)
	}
}

// TestBenchRestoresAtSignals has a real process.
func TestBenchRestoresAtSignals(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // it would be in the process too
		ends = append(ends, syscall.SIGHUP)
	}
	for _, end := range ends {
		a := newTuned()
		cmd := exec.CommandContext(t.Context(), exe, benchArgs(t, a, "--duration 1h --scale 0.1 --strategies RANDOM,LEAST_OUTSTANDING_REQUESTS")...)
		cmd.Env = append(os.Environ(), "WARMRING_TEST_MAIN=1")
		errOut := &watched{text: make(chan string, 1000)}
		cmd.Stderr = errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		errOut.until(t, "1/2 RANDOM: begins")
		if err := cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // whether a request was answered by then is not known
		text := errOut.until(t, "stopped: 1 of 2 runs were not begun")
		if !strings.Contains(text, "After kill -9, do it with:\n  printf ") || !strings.Contains(text, "has its former strategy again: "+formerPolicies) {
			t.Errorf("%v: %s", end, text)
		}
		if diff := cmp.Diff([]string{"main RANDOM, green RANDOM", formerPolicies}, a.puts); diff != "" {
			t.Errorf("%v: %s", end, diff)
		}
	}
}

func TestBenchRestoresAfterARefusal(t *testing.T) {
	a := newTuned()
	a.refuse = func(puts int) bool {
		return puts == 1 && len(a.endpoint.Variants) > 0 && a.endpoint.Variants[0].Strategy == "RANDOM"
	}
	code, _, errOut := cli(t, "", benchArgs(t, a, "--duration 100ms --strategies RANDOM,PREFIX_AWARE")...)
	if code != exitFailed || !strings.Contains(errOut, "read only") || !strings.Contains(errOut, "could not be restored") || !strings.Contains(errOut, formerPolicies) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	a = newTuned()
	a.refuse = func(int) bool { return true }
	code, _, errOut = cli(t, "", benchArgs(t, a, "--duration 100ms --strategies RANDOM")...)
	if code != exitFailed || !strings.Contains(errOut, "read only") || strings.Contains(errOut, "could not be restored") {
		t.Errorf("nothing was changed: exit code %d: %s", code, errOut)
	}
}

func TestBenchComparesTargets(t *testing.T) {
	cfg := modelserver.Default()
	cfg.Speed = 50
	one, other := mstest.Start(t, cfg).URL, mstest.Start(t, cfg).URL
	code, out, errOut := cli(t, "", "bench", "--url", "one="+one, "--url", "both="+one+","+other+"/v1", "--workload", "a1", "--scale", "0.1", "--duration", "300ms")
	if code != exitDone || !strings.Contains(out, "  one ") || !strings.Contains(out, "  both ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

func TestBenchRefuses(t *testing.T) {
	closed := closedPort(t)
	cfg := modelserver.Default()
	url := mstest.Start(t, cfg).URL
	cfg.Adapters = []string{"sql"}
	two := mstest.Start(t, cfg).URL
	t.Setenv("NO_KEY", "")
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"--url " + closed, exitUsage, "must be a URL such as"},
		{"--url http://" + closed, exitFailed, "no server answers at http://" + closed + "/v1"},
		{"--model gpt --url " + url, exitFailed, "its models are: demo\nName one with --model"},
		{"--url " + two, exitFailed, "which model is not clear: it has demo, sql\nName one with --model"},
		{"--workload z", exitUsage, "must be one of a1, a2"},
		{"--workload fleet-a", exitUsage, "must be one of a1, a2"},
		{"--workload e1 --url " + url, exitUsage, "--trace is needed"},
		{"--rate 0", exitUsage, "--rate 0"},
		{"--scale NaN", exitUsage, "--scale NaN"},
		{"--clients -1", exitUsage, "--clients -1"},
		{"--duration 0s", exitUsage, "--duration 0s"},
		{"--warm-up 1h", exitUsage, "--warm-up 1h"},
		{"--api-key-env NO_KEY", exitUsage, "NO_KEY"},
		{"--workload e1 --trace nowhere --url " + url, exitFailed, "--trace: open nowhere"},
		{"--json nowhere/b.json", exitFailed, "--json: open nowhere/b.json"},
		{"--strategies FASTEST", exitUsage, "FASTEST"},
		{"--strategies RANDOM:5", exitUsage, "only PREFIX_AWARE has a length"},
		{"--strategies PREFIX_AWARE:7", exitUsage, "must be auto or 1024 to 65536"},
		{"--strategies RANDOM --url a=http://h --url b=http://h", exitUsage, "of one --url"},
		{"--strategies RANDOM --url " + url + " --admin http://" + closed, exitFailed, "no router answers"},
	} {
		code, _, errOut := cli(t, "", append([]string{"bench"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.Contains(errOut, tc.says) {
			t.Errorf("bench %s: exit code %d, want %d with %q; %s", tc.args, code, tc.code, tc.says, errOut)
		}
	}
}

// TestBenchTellsHowToUndo: what it prints before it changes anything restores the endpoint also after kill -9.
func TestBenchTellsHowToUndo(t *testing.T) {
	a := newTuned()
	a.endpoint.Aliases = []string{"it's"}
	before := a.endpoint
	listener := httptest.NewServer(a)
	defer listener.Close()
	c := client{admin: listener.URL, tokenFile: "a token"}
	line, err := c.undo(&before)
	if err != nil {
		t.Fatal(err)
	}
	if want := " | warmring apply -f - --admin '" + listener.URL + "' --token-file 'a token'"; !strings.HasSuffix(line, want) {
		t.Errorf("%s does not end with %s", line, want)
	}
	fleet, _, _ := strings.Cut(line, " | ")
	text, err := exec.CommandContext(t.Context(), "sh", "-c", fleet).Output()
	if err != nil {
		t.Fatal(err)
	}
	a.endpoint = admin.EndpointStatus{}
	if code, _, errOut := cli(t, string(text), "apply", "-f", "-", "--admin", listener.URL); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	if diff := cmp.Diff(before, a.endpoint); diff != "" {
		t.Error(diff)
	}
}

func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		epoch, than string
		want        bool
	}{
		{"1.5", "1.5", false}, {"1.4", "1.5", true}, {"1.10", "1.9", false}, {"2.1", "1.9", false}, {"1.9", "2.1", true}, {"", "1.1", false},
	} {
		if got := older(tc.epoch, tc.than); got != tc.want {
			t.Errorf("%q is older than %q: %v", tc.epoch, tc.than, got)
		}
	}
}

// TestBenchScriptScales: what prompts share they share at any scale.
func TestBenchScriptScales(t *testing.T) {
	sizes := map[float64]int{}
	for _, scale := range []float64{0.1, 1} {
		w := workloadFlags{name: "single", seed: 1, rate: 1, scale: scale}
		cfg, err := w.config(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		first, ok := cfg.Script.Next()
		second, _ := cfg.Script.Next()
		if !ok || len(first.Turns) != 1 || first.Turns[0].Messages[0] != second.Turns[0].Messages[0] {
			t.Fatalf("two prompts of the workload with only one differ at scale %v", scale)
		}
		for _, m := range first.Turns[0].Messages {
			sizes[scale] += len(m.Content)
		}
	}
	if r := float64(sizes[1]) / float64(sizes[0.1]); r < 9 || r > 11 {
		t.Errorf("%v bytes: want ten times as many at 1", sizes)
	}
}
