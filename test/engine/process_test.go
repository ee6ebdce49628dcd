//go:build engine

package engine

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const startTimeout = time.Minute // for a program to say that it listens

// launch starts cmd and returns the first line of its output that contains mark. The program ends with the test.
func launch(t *testing.T, cmd *exec.Cmd, mark string) string {
	t.Helper()
	// A standard input that stays open: the engine ends when this process does.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, drained := make(chan string, 1), make(chan struct{})
	var output []string // all lines; read only once drained is closed
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			output = append(output, lines.Text())
			if strings.Contains(lines.Text(), mark) {
				select {
				case found <- lines.Text():
				default:
				}
			}
		}
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its status is SIGTERM's, or its output tells more
		_ = write.Close()
	}()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		<-drained
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, strings.Join(output, "\n"))
		}
	})
	select {
	case line := <-found:
		return line
	case <-exited:
		t.Fatalf("%s ended", cmd)
	case <-time.After(startTimeout):
		t.Fatalf("%s did not say %s within %s", cmd, mark, startTimeout)
	}
	return ""
}

// awaitOK returns when url answers 200.
func awaitOK(t *testing.T, url string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		if resp, err := http.Get(url); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not answer 200 within %s", url, startTimeout)
		}
	}
}
