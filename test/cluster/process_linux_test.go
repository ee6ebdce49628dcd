package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that takes seconds on an idle machine. Only a failure reaches it, so it is as
// long as a machine that is busy with other tests may need.
const patience = 90 * time.Second

// built says that there is something to remove.
var built atomic.Bool

// program is the binary, built once for all tests of this process.
var program = sync.OnceValues(func() (string, error) {
	built.Store(true)
	dir, err := os.MkdirTemp("", "warmring-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "warmring")
	out, err := exec.Command("go", "build", "-o", path, "github.com/warmring/warmring/cmd/warmring").CombinedOutput()
	if err != nil {
		return path, fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built.Load() {
		path, _ := program()
		_ = os.RemoveAll(filepath.Dir(path)) // a directory of our own in the temporary one
	}
	os.Exit(code)
}

// process is a program that runs by itself. It ends with its test, and with this process however that ends.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   *journal
	ended chan struct{}
}

// launch starts a program with a text for its standard input.
func launch(t *testing.T, name, stdin string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, log: &journal{name: name, out: t.Output()}, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	// Nothing of the environment that could change a router's configuration.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(stdin), p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state says how it ended
	}()
	t.Cleanup(func() { <-p.ended }) // by then the test's context has killed it
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("%s to %s: %v", s, p.name, err)
	}
}

// kill is kill -9.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.ended
}

// pause is SIGSTOP: the kernel keeps its connections and answers for it as far as TCP goes.
func (p *process) pause(t *testing.T) { t.Helper(); p.signal(t, syscall.SIGSTOP) }

func (p *process) resume(t *testing.T) { t.Helper(); p.signal(t, syscall.SIGCONT) }

// terminate is SIGTERM, and the wait for an end with exit code 0.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s does not stop", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM", p.name, code)
	}
}

// says waits for a line of the log that has all the words.
func (p *process) says(t *testing.T, words ...string) string {
	t.Helper()
	var line string
	within(t, patience, fmt.Sprintf("%s says %q", p.name, words), func() (found bool) {
		line, found = p.log.line(words...)
		return found
	})
	return line
}

// run is a command that ends by itself: its output and exit code.
func run(t *testing.T, argv ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// warmring is a command line of the program.
func warmring(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	return run(t, append([]string{binary(t)}, args...)...)
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// journal keeps what a process writes, and passes it on to the test's log.
type journal struct {
	name string
	out  io.Writer

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(b) {
		_, _ = fmt.Fprintf(j.out, "%s | %s\n", j.name, bytes.TrimRight(line, "\n"))
	}
	return j.text.Write(b)
}

// line is the first one that has all the words.
func (j *journal) line(words ...string) (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if hasAll(line, words) {
			return strings.TrimSpace(line), true
		}
	}
	return "", false
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// within waits until ok, and fails the test after d.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(d)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}
