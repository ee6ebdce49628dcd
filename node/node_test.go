package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/node/discovery"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
)

// patience bounds waits that end at once when all is well.
const patience = 20 * time.Second

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startModel runs a fast simulated model server until the test ends and returns its URL.
func startModel(t *testing.T, id string) (*modelserver.Server, string) {
	t.Helper()
	cfg := modelserver.Default()
	cfg.ID, cfg.Speed = id, 20
	s, err := modelserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// running is a node in a test. stop tells it to end, result waits for that.
type running struct {
	*Node
	log  *logBuffer
	stop context.CancelFunc
	done chan error
}

func (r *running) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(patience):
		t.Fatalf("the node does not end; its log:\n%s", r.log)
		return nil
	}
}

func testConfig(backends ...string) Config {
	c := Default()
	c.API.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Endpoints = []EndpointConfig{{Name: "demo"}}
	for i, url := range backends {
		c.Backends = append(c.Backends, BackendConfig{ID: fmt.Sprintf("gpu-%d", i), URL: url, Weight: 1})
	}
	return c
}

func start(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{log: &logBuffer{}, done: make(chan error, 1)}
	var err error
	if r.Node, err = New(cfg, Machine(), Options{LogOutput: r.log, Version: "v0"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = r.result(t)
	})
	select {
	case <-r.Serving():
	case err := <-r.done:
		r.done <- err
		t.Fatalf("the node did not start: %v", err)
	case <-time.After(patience):
		t.Fatal("the node does not listen")
	}
	return r
}

// send posts a chat request to the node.
func (r *running) send(t *testing.T, stream bool, tokens int) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"model":"demo","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, stream, tokens)
	resp, err := http.Post("http://"+r.APIAddr()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d: %s", resp.StatusCode, text)
	}
	return resp
}

func (r *running) get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// eventually waits for ok without a fixed delay.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestARequestPassesAndIsCounted(t *testing.T) {
	_, url := startModel(t, "m")
	n := start(t, testConfig(url))
	resp := n.send(t, false, 4)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("X-Warmring-Backend"); got != "gpu-0" {
		t.Errorf("X-Warmring-Backend %q", got)
	}
	eventually(t, "the request is in the metrics", func() bool {
		_, text := n.get(t, "http://"+n.AdminAddr()+"/metrics")
		return strings.Contains(text, `warmring_requests_total{backend="gpu-0",code="200",endpoint="demo",route="chat_completions",variant="main"} 1`)
	})
	code, text := n.get(t, "http://"+n.AdminAddr()+"/admin/v1/status")
	if code != 200 || !strings.Contains(text, `"epoch": "1.1"`) {
		t.Errorf("status: %d %s", code, text)
	}
	if !strings.Contains(n.log.String(), "msg=listening router=warmring api="+n.APIAddr()+" admin="+n.AdminAddr()) {
		t.Errorf("the log does not say where it listens:\n%s", n.log)
	}
}

func TestAFailedStartLeavesNothingBehind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var opened []net.Listener
	world := Machine()
	listen := world.Listen
	world.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := listen(ctx, network, address)
		if err == nil {
			opened = append(opened, l)
		}
		return l, err
	}
	cfg := testConfig()
	cfg.Admin.Listen = taken.Addr().String()
	n, err := New(cfg, world, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("Run: %v, want an error about admin.listen", err)
	}
	if len(opened) != 1 {
		t.Fatalf("%d listeners were opened", len(opened))
	}
	if err := opened[0].Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("the api listener stayed open")
	}
}

func TestATakenPeerPortIsToldOnce(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := testConfig()
	cfg.Peer.Listen = taken.Addr().String()
	n, err := New(cfg, Machine(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil || strings.Count(err.Error(), "peer.listen") != 1 {
		t.Errorf("Run: %v", err)
	}
}

// Row 48 of the scenarios.
func TestAWrongReloadIsRefusedAsAWhole(t *testing.T) {
	n := start(t, testConfig("http://127.0.0.1:9"))
	before := n.picker.Epoch()
	wrong := testConfig("http://127.0.0.1:9", "http://127.0.0.1:10")
	wrong.Backends[1].Endpoint = "nowhere"
	wrong.Proxy.Retry.Attempts = 0
	moved := testConfig("http://127.0.0.1:9", "http://127.0.0.1:10")
	moved.API.Listen = "127.0.0.1:1"
	moved.Telemetry.Traces.Endpoint = "http://bob:secret@h:1"
	moved.Discovery.DNS = []discovery.DNSConfig{{Name: "gpus", Port: 1, Scheme: "http", Weight: 1, Interval: time.Second}}
	for name, tc := range map[string]struct {
		cfg  Config
		want []string
	}{
		"not valid":     {wrong, []string{"proxy.retry.attempts", "backends[gpu-1].endpoint"}},
		"needs restart": {moved, []string{`api.listen: changed from "127.0.0.1:0" to "127.0.0.1:1", which needs a restart`, `to "http://bob:xxxxx@h:1"`, "discovery.dns: changed"}},
	} {
		err := n.Reload(t.Context(), tc.cfg)
		if err == nil {
			t.Fatalf("%s: accepted", name)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: shows a password: %v", name, err)
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not name %s", name, err, w)
			}
		}
		if n.picker.Epoch() != before {
			t.Errorf("%s: the epoch changed", name)
		}
	}
	if err := n.Reload(t.Context(), testConfig("http://127.0.0.1:9", "http://127.0.0.1:10")); err != nil {
		t.Fatal(err)
	}
	if got := n.picker.Epoch().ID(); got != "1.2" {
		t.Errorf("epoch %s after a good reload, want 1.2", got)
	}
}

// Backends that ask for a key get it, in requests and in probes, and another one after a reload.
func TestBackendsAreSentTheirKey(t *testing.T) {
	model, _ := startModel(t, "m")
	var key, asked sync.Map // the key in force under ""; the paths that were asked with it
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want, _ := key.Load(""); r.Header.Get("Authorization") != want {
			http.Error(w, "a key, please", http.StatusUnauthorized)
			return
		}
		asked.Store(r.URL.Path, true)
		model.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(guarded.Close)
	cfg := testConfig(guarded.URL)
	cfg.API.BackendKeysFile = filepath.Join(t.TempDir(), "keys")
	put := func(text string) {
		if err := os.WriteFile(cfg.API.BackendKeysFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		asked.Clear()
		key.Store("", "Bearer "+text)
	}
	serves := func(n *running, with string) {
		t.Helper()
		eventually(t, "it is asked how it is with the "+with+" key", func() bool {
			_, models := asked.Load("/v1/models")
			_, metrics := asked.Load("/metrics")
			return models && metrics && n.picker.Epoch().Backends()[0].State == routing.Active
		})
		resp := n.send(t, false, 2)
		if drainBody(t, resp); resp.StatusCode != http.StatusOK {
			t.Errorf("with the %s key the answer is %s", with, resp.Status)
		}
	}
	put("first")
	n := start(t, cfg)
	serves(n, "first")
	put("second")
	if err := n.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	serves(n, "second")
}

// The file of a router that joins others may name no fleet; reading it again must not take theirs away.
func TestAFileWithoutAFleetTakesNothingAway(t *testing.T) {
	_, url := startModel(t, "m")
	n := start(t, testConfig(url))
	if err := n.replica.want(t.Context(), fleet.Fleet{}); err != nil {
		t.Fatal(err)
	}
	if e := n.Epoch(); e.ID() != "1.1" || len(e.Endpoints()) != 1 {
		t.Errorf("epoch %s with %d endpoints is left", e.ID(), len(e.Endpoints()))
	}
}

// Row 22 of the scenarios: the same name at a new address gets new connections.
func TestAMovedBackendIsAskedAtItsNewAddress(t *testing.T) {
	first, firstURL := startModel(t, "first")
	second, secondURL := startModel(t, "second")
	n := start(t, testConfig(firstURL))
	for range 3 {
		drainBody(t, n.send(t, false, 2))
	}
	if err := n.Reload(t.Context(), testConfig(secondURL)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the backend is ready at its new address", func() bool {
		return n.picker.Epoch().Backends()[0].State == routing.Active
	})
	for range 3 {
		drainBody(t, n.send(t, false, 2))
	}
	if a, b := first.Stats().Requests, second.Stats().Requests; a != 3 || b != 3 {
		t.Errorf("requests: %d at the old address, %d at the new one; want 3 and 3", a, b)
	}
}

func drainBody(t *testing.T, resp *http.Response) {
	t.Helper()
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

func TestASaltFileKeepsHomes(t *testing.T) {
	cfg := testConfig("http://127.0.0.1:9")
	cfg.Router.SaltFile = filepath.Join(t.TempDir(), "salt")
	digest := func() uint64 {
		n, err := New(cfg, Machine(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := n.replica.firstEpoch()
		if err != nil {
			t.Fatal(err)
		}
		return first.Digest()
	}
	if err := os.WriteFile(cfg.Router.SaltFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	if first, second := digest(), digest(); first != second {
		t.Error("two starts with one salt differ")
	}
	if err := os.WriteFile(cfg.Router.SaltFile, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Machine(), Options{}); err == nil || !strings.Contains(err.Error(), "router.salt_file") {
		t.Errorf("a short salt: %v", err)
	}
	cfg.Router.SaltFile = ""
	if first, second := digest(), digest(); first == second {
		t.Error("two starts without a salt file are equal")
	}
}
