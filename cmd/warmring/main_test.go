package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/api/admin"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cli runs one command line in this process.
func cli(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
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

// fakeRouter answers as a router's admin listener would, with fixed values.
func fakeRouter(t *testing.T) string {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	answers := map[string]any{
		"GET /admin/v1/status": admin.Status{
			Router: "r1", Version: "v1", Started: at, NotReady: "shutting down", Epoch: "1.3", Digest: "00ff",
			Endpoints: 1, Backends: 2, InFlight: 5, Queued: 1,
			Cluster: &admin.ClusterStatus{
				ID: "00c1", Generation: 1, Role: "voter", Voters: []string{"r1", "r2", "r3"}, Members: 1, Expect: 3,
				Waiting: "a majority of the voters: r2 and r3 do not answer",
			},
		},
		"GET /admin/v1/members": []admin.Member{
			{Router: "r1", Name: "r1-0001", Role: "leader", Epoch: "1.3", Digest: "00ff", Agrees: new(true), Self: true, Address: "10.0.0.1:9"},
			{Router: "r2", Name: "r2-0002", Role: "voter", Epoch: "1.3", Digest: "0bad", Agrees: new(false), ViewAge: new(41.6), Address: "10.0.0.2:9"},
			{Router: "r3", Name: "r3-0003", Role: "subscriber", Leaving: true, Epoch: "1.2", Digest: "00fe", ViewAge: new(120.), Address: "10.0.0.3:9"},
			{Router: "r4", Name: "r4-0004", Role: "blank", Address: "10.0.0.4:9"},
		},
		"GET /admin/v1/epochs": []admin.EpochInfo{
			{ID: "1.3", Digest: "00ff", At: at, By: "admin from 127.0.0.1", Changes: []admin.EpochChange{
				{Kind: "backends added", Count: 7, IDs: []string{"g1", "g2", "g3", "g4", "g5", "g6", "g7"}}, {Kind: "backends draining", Count: 1, IDs: []string{"g0"}},
			}},
			{ID: "1.2", Digest: "00fe", At: at},
		},
		"GET /admin/v1/endpoints": []admin.EndpointStatus{{
			Name: "demo", Aliases: []string{"llama"}, Adapters: []string{"sql"}, Variants: []admin.VariantStatus{
				{Name: "main", Weight: 1, Strategy: "PREFIX_AWARE", PrefixLength: "auto", Backends: 2, Active: 1, InFlight: 5},
				{Name: "canary", Weight: 0.5, Strategy: "RANDOM", ConcurrencyThreshold: 8},
			},
		}},
		"GET /admin/v1/backends": []admin.BackendStatus{
			{ID: "gpu-0", URL: "http://h:1", Endpoint: "demo", Variant: "main", State: "active", InFlight: 5, PeerInFlight: 2, MaxInFlight: 8, Prefill: 1200, Picks: 77, Source: "dns:gpus"},
			{ID: "gpu-1", URL: "http://h:2", Endpoint: "demo", Variant: "main", State: "active", EjectedUntil: &at},
			{ID: "gpu-2", URL: "http://h:3", Endpoint: "demo", Variant: "main", State: "active", BusyUntil: &at},
			{ID: "gpu-4", URL: "http://h:5", Endpoint: "demo", Variant: "main", State: "active", PeersEjected: 2, Rumoured: true},
			{ID: "gpu-3", URL: "http://h:4", Endpoint: "demo", Variant: "main", State: "draining", Gone: true},
		},
		"POST /admin/v1/explain": admin.Explanation{
			Epoch: "1.3", Endpoint: "demo", Variant: "main", Tenant: "t", Strategy: "PREFIX_AWARE", Key: "abcd", TextBytes: 900, Depth: 4,
			PromptTokens: 225, Home: "gpu-0", Candidates: []admin.Candidate{
				{ID: "gpu-0", InFlight: 5, Prefill: 1200, Have: 200, Cost: 1234.4, Eligible: true},
				{Rank: 1, ID: "gpu-1", Reason: "ejected"},
			},
		},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(admin.Error{Error: admin.ErrorDetail{Message: "missing token"}})
			return
		}
		_ = json.NewEncoder(w).Encode(answers[r.Method+" "+r.URL.Path])
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTables(t *testing.T) {
	t.Setenv("WARMRING_ADMIN_TOKEN", "secret")
	router := fakeRouter(t)
	for _, args := range [][]string{{"status"}, {"members"}, {"epochs"}, {"endpoints"}, {"backends"}, {"explain", "-f", "-"}, {"status", "--json"}} {
		code, out, errOut := cli(t, `{"prompt":"x"}`, append(args, "--admin", router)...)
		if code != exitDone {
			t.Errorf("%v: exit code %d: %s", args, code, errOut)
		}
		golden(t, strings.Trim(strings.Join(args, ""), "-")+".txt", out)
	}
}

func TestATokenFile(t *testing.T) {
	router := fakeRouter(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := cli(t, "", "status", "--admin", router, "--token-file", file); code != exitDone {
		t.Errorf("with the token: exit code %d: %s", code, errOut)
	}
	if code, _, errOut := cli(t, "", "status", "--admin", router); code != exitFailed || !strings.Contains(errOut, "missing token; --token-file names") {
		t.Errorf("without a token: exit code %d: %s", code, errOut)
	}
}

// TestNotAnAdminListener: what is no admin listener is told from one that does not know a backend.
func TestNotAnAdminListener(t *testing.T) {
	for text, not := range map[string]bool{
		`{"error":{"message":"no such route: /admin/v1/status"}}`: true,
		"404 page not found":                       true,
		`{"error":{"message":"no backend \"a\""}}`: false,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusNotFound) }))
		code, _, errOut := cli(t, "", "status", "--admin", srv.URL)
		srv.Close()
		if code != exitFailed || !strings.Contains(errOut, "the router at "+srv.URL+" answered 404") || strings.Contains(errOut, "must be the admin listener") != not {
			t.Errorf("%s: exit code %d: %s", text, code, errOut)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"is required","param":"messages"}}`, http.StatusBadRequest)
	}))
	defer srv.Close()
	if _, _, errOut := cli(t, "{}", "explain", "-f", "-", "--admin", srv.URL); !strings.Contains(errOut, "messages: is required") {
		t.Errorf("the field is not named: %s", errOut)
	}
	c := client{admin: "http://h"}
	if err := c.unanswered(t.Context(), context.DeadlineExceeded); !strings.Contains(err.Error(), "no answer within 30s; --admin") {
		t.Error(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.unanswered(stopped, context.Canceled); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "is one running") {
		t.Error(err)
	}
}

// What a router says of a field does not name it; the field is beside it.
func TestRefusalsNameTheField(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(admin.Error{Error: admin.ErrorDetail{Message: "must be an array", Param: "messages"}})
	}))
	defer srv.Close()
	code, _, errOut := cli(t, "{}", "explain", "-f", "-", "--admin", srv.URL)
	if code != exitFailed || !strings.Contains(errOut, "400 Bad Request: messages: must be an array") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// closedPort is one where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const fleetFile = "testdata/fleet.yaml"

func TestExitCodes(t *testing.T) {
	closed := closedPort(t)
	for _, tc := range []struct {
		args string
		code int
		says string // on standard error; for code 0 on standard output
	}{
		{"", exitDone, "Usage:"},
		{"--help", exitDone, "Usage:"},
		{"version", exitDone, "warmring "},
		{"completion bash", exitDone, "complete"},
		{"bogus", exitUsage, `unknown command "bogus"`},
		{"serv", exitUsage, "did you mean serve?"},
		{"version extra", exitUsage, `unexpected "extra"`},
		{"config bogus", exitUsage, `unknown command "bogus"`},
		{"serve --bogus", exitUsage, "unknown flag: --bogus"},
		{"serve --shutdown.grace soon", exitUsage, `"soon" is not a duration such as 30s`},
		{"serve --config nowhere.yaml", exitFailed, "--config: open nowhere.yaml"},
		{"serve", exitFailed, "endpoints: at least one is needed"},
		{"serve --help", exitDone, "--shutdown.grace"},
		{"config check -f " + fleetFile, exitDone, "ok: endpoints 1, backends 2, api on 127.0.0.1:8080, admin on 127.0.0.1:9080"},
		{"config show -f " + fleetFile + " --proxy.retry.attempts 5", exitDone, "attempts: 5"},
		{"config show --admin.pprof -f " + fleetFile, exitDone, "pprof: true"},
		{"demo --routers 0", exitUsage, "--routers 0: must be 1 to 20"},
		{"demo --backends 0", exitUsage, "--backends 0: must be 1 to 500"},
		{"demo --base-port 65000", exitUsage, "--base-port 65000"},
		{"demo --speed 0", exitUsage, "--speed 0"},
		{"modelserver --speed -1", exitUsage, "peed"},
		{"explain", exitUsage, "-f is needed"},
		{"explain -f - -H tenant=alice", exitUsage, `--header "tenant=alice": must be a header such as`},
		{"explain -f nowhere.json", exitFailed, "-f: open nowhere.json"},
		{"apply", exitUsage, "-f is needed: a file with endpoints and backends"},
		{"apply -f nowhere.yaml", exitFailed, "-f: open nowhere.yaml"},
		{"apply -f testdata/apply.yaml --admin http://" + closed, exitFailed, "no router answers"},
		{"backend", exitDone, "drain"},
		{"backend dran", exitUsage, "did you mean drain?"},
		{"backend dran --admin http://" + closed, exitUsage, "did you mean drain?"},
		{"backend --admin http://" + closed, exitUsage, "unknown flag: --admin"},
		{"bogus --json", exitUsage, `unknown command "bogus"`},
		{"backend add", exitUsage, "ID is needed: warmring backend add ID --url URL"},
		{"backend add a b", exitUsage, `unexpected "b"`},
		{"backend add a --weight heavy", exitUsage, "--weight"},
		{"backend add a --weight NaN", exitUsage, "--weight NaN: must be a number above 0"},
		{"backend add a --weight Inf", exitUsage, "--weight +Inf: must be a number above 0"},
		{"backend weight a Inf", exitUsage, "must be a number above 0"},
		{"backend weight a", exitUsage, "WEIGHT is needed"},
		{"backend weight a 0", exitUsage, "must be a number above 0"},
		{"backend drain", exitUsage, "ID is needed"},
		{"backend remove a --admin http://" + closed, exitFailed, "no router answers"},
		{"status --admin nonsense", exitUsage, `--admin "nonsense": must be a URL`},
		{"status --admin http://" + closed, exitFailed, "no router answers at http://" + closed},
	} {
		code, out, errOut := cli(t, "", strings.Fields(tc.args)...)
		text := errOut
		if tc.code == exitDone {
			text = out
		}
		if code != tc.code || !strings.Contains(text, tc.says) {
			t.Errorf("warmring %s: exit code %d, want %d with %q; stdout %q, stderr %q", tc.args, code, tc.code, tc.says, out, errOut)
		}
		if strings.Contains(errOut, "panic") {
			t.Errorf("warmring %s: %s", tc.args, errOut)
		}
	}
}

func TestConfigCheckReportsEverything(t *testing.T) {
	code, _, errOut := cli(t, "router: {nama: x}\nshutdown: {grace: 0s}\n", "config", "check", "-f", "-")
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	golden(t, "check.txt", errOut)
	// What cannot be read is no reason to complain of what it lacks.
	if _, _, errOut = cli(t, "endpoints: [{name: a}\n", "config", "check", "-f", "-"); !strings.Contains(errOut, "not YAML") || strings.Contains(errOut, "at least one") {
		t.Error(errOut)
	}
	// Nor is a variable that cannot be read one to judge what was there before.
	t.Setenv("WARMRING_SHUTDOWN_GRACE", "5")
	if _, _, errOut = cli(t, "endpoints: [{name: a}]\n", "config", "check", "-f", "-"); !strings.Contains(errOut, "WARMRING_SHUTDOWN_GRACE") || strings.Contains(errOut, "not positive") {
		t.Error(errOut)
	}
}

func TestHelpSaysWhatSettingsDo(t *testing.T) {
	_, out, _ := cli(t, "", "serve", "--help")
	if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words,
		"--shutdown.grace duration longest wait for running requests to end, above 0 (WARMRING_SHUTDOWN_GRACE) (default 30s)") {
		t.Errorf("nothing says what --shutdown.grace does, its variable and default: %s", out)
	}
	for line := range strings.Lines(out) {
		if len(line) > 101 {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
}

func TestCommentedConfigurationIsOne(t *testing.T) {
	_, plain, _ := cli(t, "", "config", "show", "-f", fleetFile)
	_, commented, _ := cli(t, "", "config", "show", "--comments", "-f", fleetFile)
	for _, lines := range []string{"  # longest wait for running requests to end, above 0\n  grace: 30s\n", "  - # name of the backend; empty: host:port of its URL\n    id: gpu-0\n"} {
		if !strings.Contains(commented, lines) || strings.Contains(plain, "#") {
			t.Errorf("with --comments, and only then, it must have %q: %s", lines, commented)
		}
	}
	if code, _, errOut := cli(t, commented, "config", "check", "-f", "-"); code != exitDone {
		t.Errorf("config check: exit code %d: %s", code, errOut)
	}
	_, again, _ := cli(t, commented, "config", "show", "-f", "-")
	if diff := cmp.Diff(plain, again); diff != "" {
		t.Errorf("read again it is another (-was +is): %s", diff)
	}
}

func TestVariablesReachTheConfiguration(t *testing.T) {
	t.Setenv("WARMRING_ROUTER_NAME", "from-the-environment")
	code, out, errOut := cli(t, "", "config", "show", "-f", fleetFile)
	if code != exitDone || !strings.Contains(out, "name: from-the-environment") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// watched is an output in which a test can wait for words.
type watched struct {
	text  chan string
	sofar string
}

func (w *watched) Write(p []byte) (int, error) {
	w.text <- string(p)
	return len(p), nil
}

// until reads on until the output has the words.
func (w *watched) until(t *testing.T, words string) string {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !strings.Contains(w.sofar, words) {
		select {
		case more := <-w.text:
			w.sofar += more
		case <-limit:
			t.Fatalf("no %q in:\n%s", words, w.sofar)
		}
	}
	return w.sofar
}

func TestDemoWithLoad(t *testing.T) {
	t.Setenv("WARMRING_TEST_MAIN", "1") // for the routers' processes
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: make(chan string, 1000)}
	var errOut bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, strings.Fields("demo --base-port 0 --speed 50 --backends 3 --load"), strings.NewReader(""), out, &errOut)
	}()
	text := out.until(t, "at best")
	_, url, _ := strings.Cut(text, "admin API    ")
	url, _, _ = strings.Cut(url, "/admin/v1/status")
	if code, rows, errText := cli(t, "", "backends", "--admin", url); code != exitDone || strings.Count(rows, "active") != 3 {
		t.Errorf("backends: exit code %d: %s%s", code, rows, errText)
	}
	code, explained, errText := cli(t, `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`, "explain", "-f", "-", "-H", "X-Amzn-SageMaker-Prefix-Aware-Id: alice", "--admin", url)
	if code != exitDone || !strings.Contains(explained, "PREFIX_AWARE") || !regexp.MustCompile(`tenant +alice`).MatchString(explained) {
		t.Errorf("explain: exit code %d: %s%s", code, explained, errText)
	}
	code, _, errText = cli(t, `{"model":"demo","messages":"hi"}`, "explain", "-f", "-", "--admin", url)
	if want := "messages: must be an array of messages, not a string\n"; code != exitFailed || !strings.HasSuffix(errText, want) {
		t.Errorf("explain of what is no chat: exit code %d: %s", code, errText)
	}
	if !strings.Contains(text, "They agree: epoch 1.2") {
		t.Errorf("the routers do not agree:\n%s", text)
	}
	if !warm(text) {
		t.Errorf("the load did not find its prefixes cached:\n%s", text)
	}
	cancel()
	select {
	case code := <-done:
		if code != exitDone || errOut.Len() > 0 {
			t.Errorf("exit code %d: %s", code, errOut.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the demo does not stop")
	}
}

// warm: the row of all requests has at least nine tenths of the hits that are possible.
func warm(table string) bool {
	for line := range strings.Lines(table) {
		cells := strings.Fields(line)
		if len(cells) > 3 && cells[0] == "all" {
			var rate float64
			if err := json.Unmarshal([]byte(cells[3]), &rate); err != nil {
				return false
			}
			return rate > 0.9*100*(loadQuestions-1)/loadQuestions
		}
	}
	return false
}

func TestDemoNamesAPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The kernel's ports are above 32767: with this base the first model server's port is the taken one.
	base := 0
	if err := json.Unmarshal([]byte(port), &base); err != nil {
		t.Fatal(err)
	}
	d := demo{routers: 1, backends: 1, basePort: base - backendPorts, speed: 1}
	err = d.run(t.Context(), &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), port) || !strings.Contains(err.Error(), "--base-port") {
		t.Errorf("got %v, want an error with the port %s and the flag", err, port)
	}
}

func TestModelServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{text: make(chan string, 10)}
	var errOut bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, strings.Fields("modelserver --port 0 --model tiny --kv-tokens 200000"), strings.NewReader(""), out, &errOut)
	}()
	_, url, _ := strings.Cut(strings.TrimSpace(out.until(t, "http://")), "model tiny on ")
	resp, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if code := <-done; code != exitDone || resp.StatusCode != http.StatusOK {
		t.Errorf("health %d, exit code %d: %s", resp.StatusCode, code, errOut.String())
	}
}
