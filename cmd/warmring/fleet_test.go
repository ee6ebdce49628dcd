package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/routing"
)

// agreed is a cluster of one router that does at once what a write says.
type agreed struct {
	*routing.Picker
	err error // of every write

	mu    sync.Mutex // guards what follows
	polls int        // snapshots until what drains or joins gets on; 0: it stays
}

func (a *agreed) Write(_ context.Context, w admin.Write) (*routing.Epoch, error) {
	if a.err != nil {
		return nil, a.err
	}
	next, err := a.Epoch().Apply(w.Change)
	if err == nil {
		a.SetEpoch(next)
	}
	return next, err
}

func (a *agreed) Renew(context.Context, admin.Lease) error { return a.err }

// getOn makes what drains leave and what joins active, after a number of requests for the backends.
func (a *agreed) getOn(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.polls--; a.polls != 0 {
		return
	}
	var c routing.Change
	for _, b := range a.Epoch().Backends() {
		switch b.State {
		case routing.Draining:
			c.RemoveBackends = append(c.RemoveBackends, b.ID)
		case routing.Joining:
			b.State = routing.Active
			c.PutBackends = append(c.PutBackends, b)
		default:
		}
	}
	next, err := a.Epoch().Apply(c)
	if err != nil {
		t.Error(err)
		return
	}
	a.SetEpoch(next)
}

// startAgreed serves the admin API over two backends, the second of which goes through a slash.
func startAgreed(t *testing.T) (*agreed, string) {
	t.Helper()
	e, err := routing.NewEpoch(1, 1).Apply(routing.Change{
		PutEndpoints: []routing.Endpoint{{Name: "demo", Variants: []routing.Variant{{Name: "main", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}}}}},
		PutBackends: []routing.Backend{
			{ID: "gpu-0", URL: "http://10.0.0.1:8000", Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active},
			{ID: "rack/1:8000", URL: "http://10.0.0.2:8000", Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &agreed{Picker: routing.NewPicker(routing.PickerConfig{})}
	a.SetEpoch(e)
	desk, err := admin.New(admin.Default(), admin.Deps{Picker: a, Fleet: a, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+r.URL.Path == "GET/admin/v1/backends" {
			a.getOn(t)
		}
		desk.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return a, srv.URL
}

// states lists the fleet's backends and their states.
func (a *agreed) states() string {
	var list []string
	for _, b := range a.Epoch().Backends() {
		list = append(list, b.ID+" "+b.State.String())
	}
	return strings.Join(list, ", ")
}

func TestApplyPrintsADifference(t *testing.T) {
	a, url := startAgreed(t)
	var text strings.Builder
	for _, args := range []string{"--dry-run", "--dry-run --prune", "", "", "--prune", "--prune --json"} {
		code, out, errOut := cli(t, "", append(strings.Fields("apply -f testdata/apply.yaml --admin "+url), strings.Fields(args)...)...)
		if code != exitDone {
			t.Errorf("%s: exit code %d: %s", args, code, errOut)
		}
		text.WriteString("$ warmring apply " + args + "\n" + out)
	}
	golden(t, "apply.txt", regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllString(text.String(), "DIGEST"))
	if want := "gpu-0 active, gpu-2 joining, rack/1:8000 draining"; a.states() != want {
		t.Errorf("got %s", a.states())
	}
}

func TestApplyReadsJSONFromStandardInput(t *testing.T) {
	a, url := startAgreed(t)
	code, _, errOut := cli(t, `{"backends": [{"url": "http://h:1"}]}`, "apply", "-f", "-", "--admin", url)
	if want := "gpu-0 active, h:1 joining, rack/1:8000 active"; code != exitDone || a.states() != want {
		t.Errorf("exit code %d: %s; %s", code, errOut, a.states())
	}
}

func TestApplyRefusesFilesThatAreNotAFleet(t *testing.T) {
	_, url := startAgreed(t)
	for text, want := range map[string]string{
		"api: {listen: x}\nbackends: []\n": "line 1: api: unknown field\na file to apply holds endpoints and backends, and nothing else",
		"backends: [{ulr: x}]":             "line 1: backends[0].ulr: unknown field; did you mean url?",
		"backends: [{url: 'http://h/v1'}]": "backends[h/v1].url: \"http://h/v1\": want nothing behind the port",
		"{}":                               "the fleet is empty",
	} {
		if code, out, errOut := cli(t, text, "apply", "-f", "-", "--admin", url); code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d: %s%s", text, code, out, errOut)
		}
	}
}

func TestBackendCommands(t *testing.T) {
	a, url := startAgreed(t)
	for _, c := range []struct{ args, says, states string }{
		{"add gpu-7 --url http://10.0.0.7:8000 --weight 2 --max-inflight 4", "gpu-7 is in the fleet: epoch 1.2 (digest ", "gpu-0 active, gpu-7 joining, rack/1:8000 active"},
		{"weight gpu-7 0.5", "gpu-7 has weight 0.5: epoch 1.3", "gpu-0 active, gpu-7 joining, rack/1:8000 active"},
		{"drain rack/1:8000", "rack/1:8000 drains: epoch 1.4", "gpu-0 active, gpu-7 joining, rack/1:8000 draining"},
		{"add rack/1:8000 --url http://10.0.0.2:8000", "rack/1:8000 is in the fleet: epoch 1.5", "gpu-0 active, gpu-7 joining, rack/1:8000 joining"},
		{"remove rack/1:8000 --force", "rack/1:8000 is out of the fleet: epoch 1.6", "gpu-0 active, gpu-7 joining"},
		{"weight gpu-0 3 --json", `"epoch": "1.7"`, "gpu-0 active, gpu-7 joining"},
	} {
		code, out, errOut := cli(t, "", append(strings.Fields("backend "+c.args), "--admin", url)...)
		if code != exitDone || !strings.Contains(out, c.says) || a.states() != c.states {
			t.Errorf("%s: exit code %d: %s%s; %s", c.args, code, out, errOut, a.states())
		}
	}
	if b := a.Epoch().Backends()[1]; b.Weight != 0.5 || b.MaxInflight != 4 {
		t.Errorf("got %+v", b)
	}
	code, _, errOut := cli(t, "", "backend", "drain", "gpu-9", "--admin", url)
	if code != exitFailed || !strings.Contains(errOut, `404 Not Found: there is no backend "gpu-9"`) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestBackendCommandsWait(t *testing.T) {
	a, url := startAgreed(t)
	a.polls = 3
	code, _, errOut := cli(t, "", "backend", "drain", "rack/1:8000", "--wait", "--admin", url)
	if code != exitDone || a.states() != "gpu-0 active" || errOut != "" {
		t.Errorf("drain: exit code %d: %s; %s", code, errOut, a.states())
	}
	a.polls = 2
	code, _, errOut = cli(t, "", "backend", "add", "gpu-1", "--url", "http://h:1", "--wait", "--admin", url)
	if code != exitDone || a.states() != "gpu-0 active, gpu-1 active" {
		t.Errorf("add: exit code %d: %s; %s", code, errOut, a.states())
	}
	code, _, errOut = cli(t, "", "backend", "drain", "gpu-1", "--wait", "--timeout", "10ms", "--admin", url)
	if code != exitFailed || !strings.Contains(errOut, "gave up waiting for gpu-1: it is draining, 0 requests in flight; the change itself is made") {
		t.Errorf("in vain: exit code %d: %s", code, errOut)
	}
}

// What DNS or a lease lists stays in the fleet, draining: the wait is for its requests.
func TestADrainIsOverWhenNothingIsInFlight(t *testing.T) {
	over := drained()
	busy, idle := &admin.BackendStatus{State: "draining", PeerInFlight: 1}, &admin.BackendStatus{State: "draining"}
	polls := func(b *admin.BackendStatus, most int) int {
		for n := range most {
			if over(b) {
				return n
			}
		}
		return most
	}
	if n := polls(&admin.BackendStatus{State: "active"}, 100); n < 100 {
		t.Errorf("over after %d polls while it is active", n)
	}
	if a, b, c := polls(idle, 10), polls(busy, 100), polls(idle, 10); a+b+c < 120 {
		t.Errorf("over after %d, %d and %d polls", a, b, c)
	}
	if n := polls(idle, 10); n == 10 {
		t.Error("never over")
	}
	if !drained()(nil) {
		t.Error("gone, and not over")
	}
}

func TestRefusedWritesSayWhatToDo(t *testing.T) {
	a, url := startAgreed(t)
	for err, want := range map[error]string{
		admin.ErrNoQuorum: "503 Service Unavailable: no quorum",
		admin.ErrShrink:   "or force it",
		admin.ErrUnknown:  "read the epoch before repeating it",
	} {
		a.err = err
		if code, _, errOut := cli(t, "", "backend", "remove", "gpu-0", "--admin", url); code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit code %d: %s", err, code, errOut)
		}
	}
}

// Files and buffers get no colours; a terminal does, unless NO_COLOR says otherwise.
func TestColours(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) || isTerminal(&strings.Builder{}) {
		t.Error("a file is no terminal")
	}
	t.Setenv("NO_COLOR", "")
	if got := palette(true).green("+"); got != "\x1b[32m+\x1b[0m" {
		t.Errorf("on a terminal: %q", got)
	}
	if got := palette(false).red("-"); got != "-" {
		t.Errorf("elsewhere: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := palette(true).yellow("~"); got != "~" {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
