package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
)

// TestMain makes this test binary the program itself when a test asks for that, so that signals meet a real process.
func TestMain(m *testing.M) {
	if os.Getenv("WARMRING_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is `warmring serve` as a process of its own.
type process struct {
	cmd   *exec.Cmd
	log   *watched
	api   string
	admin string
}

func serve(t *testing.T, config string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), exe, "serve", "--config", config), log: &watched{text: make(chan string, 1000)}}
	p.cmd.Env = append(os.Environ(), "WARMRING_TEST_MAIN=1")
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := p.log.until(t, "msg=serving")
	p.api, p.admin = field(t, text, "api"), field(t, text, "admin")
	return p
}

// field is the value of key in the line about listening.
func field(t *testing.T, text, key string) string {
	t.Helper()
	_, line, _ := strings.Cut(text, "msg=listening")
	line, _, _ = strings.Cut(line, "\n")
	for word := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	t.Fatalf("no %s in %q", key, line)
	return ""
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// has reports whether the router's list of backends has the text.
func (p *process) has(t *testing.T, text string) bool {
	t.Helper()
	code, out, errOut := cli(t, "", "backends", "--admin", "http://"+p.admin)
	if code != exitDone {
		t.Fatal(errOut)
	}
	return strings.Contains(out, text)
}

// wait returns how the process ended.
func (p *process) wait(t *testing.T) *os.ProcessState {
	t.Helper()
	err := p.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return p.cmd.ProcessState
}

// model runs a simulated server in this process and returns its address.
func model(t *testing.T, fault modelserver.Fault) string {
	t.Helper()
	cfg := modelserver.Default()
	cfg.Speed, cfg.Fault = 20, fault
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
	return "http://" + l.Addr().String()
}

func configFile(t *testing.T, backend string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warmring.yaml")
	writeConfig(t, path, backend)
	return path
}

func writeConfig(t *testing.T, path, backend string) {
	t.Helper()
	text := fmt.Sprintf(`
api: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
shutdown: {drain_delay: 300ms, grace: 20s}
endpoints: [{name: demo}]
backends: [{id: gpu-0, url: %q}]
`, backend)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stream begins a streamed answer and reads its first event.
func stream(t *testing.T, api string, tokens int) (*bufio.Scanner, *http.Response) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"demo","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hello"}]}`, tokens)
	resp, err := http.Post("http://"+api+"/v1/chat/completions", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	if resp.StatusCode != http.StatusOK || !lines.Scan() {
		t.Fatalf("status %d, %v", resp.StatusCode, lines.Err())
	}
	return lines, resp
}

// Row 47 of the scenarios, with a real signal: readiness goes first, the stream finishes, exit code 0.
func TestSIGTERMLetsStreamsFinish(t *testing.T) {
	p := serve(t, configFile(t, model(t, modelserver.Fault{})))
	lines, resp := stream(t, p.api, 2000)
	defer resp.Body.Close()
	p.signal(t, syscall.SIGTERM)
	p.log.until(t, "step=not_ready")
	ready, err := http.Get("http://" + p.api + "/readyz")
	if err != nil {
		t.Fatalf("the listener closed before the drain delay was over: %v", err)
	}
	ready.Body.Close()
	if ready.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", ready.StatusCode)
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if last != "data: [DONE]" || lines.Err() != nil {
		t.Errorf("the stream ended with %q, %v", last, lines.Err())
	}
	if state := p.wait(t); state.ExitCode() != exitDone {
		t.Errorf("ended with %v", state)
	}
}

func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	p := serve(t, configFile(t, model(t, modelserver.Fault{Kind: modelserver.Stall, After: 2})))
	_, resp := stream(t, p.api, 100)
	defer resp.Body.Close()
	p.signal(t, syscall.SIGTERM)
	p.log.until(t, "step=not_ready")
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	state := p.wait(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s, although the grace is 20s", took)
	}
	if state.ExitCode() != exitFailed {
		t.Errorf("ended with %v, want exit code %d", state, exitFailed)
	}
}

// Row 48 of the scenarios, with a real signal.
func TestSIGHUPReloadsOrRefuses(t *testing.T) {
	config := configFile(t, "http://127.0.0.1:9")
	p := serve(t, config)
	writeConfig(t, config, "http://127.0.0.1:port")
	p.signal(t, syscall.SIGHUP)
	p.log.until(t, "reload refused")
	p.log.until(t, "backends[gpu-0].url")
	if !p.has(t, "http://127.0.0.1:9 ") {
		t.Error("a refused reload changed the fleet")
	}
	writeConfig(t, config, "http://127.0.0.1:10")
	p.signal(t, syscall.SIGHUP)
	limit := time.After(30 * time.Second)
	for tick := time.NewTicker(50 * time.Millisecond); !p.has(t, "http://127.0.0.1:10 "); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the reload does not reach the fleet")
		}
	}
	p.log.until(t, "reloaded")
	p.log.until(t, `kind="backends`)
	p.signal(t, syscall.SIGINT)
	if state := p.wait(t); state.ExitCode() != exitDone {
		t.Errorf("ended with %v", state)
	}
}
