package node

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
)

// Row 47 of the scenarios: readiness goes first, the stream finishes, and the end is in order.
func TestShutdownLetsStreamsFinish(t *testing.T) {
	_, url := startModel(t, "m")
	cfg := testConfig(url)
	cfg.Shutdown.DrainDelay = 300 * time.Millisecond
	n := start(t, cfg)
	resp := n.send(t, true, 2000) // about a second
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatalf("no first event: %v", lines.Err())
	}
	n.stop()
	eventually(t, "readiness goes while the listener is open", func() bool {
		code, _ := n.get(t, "http://"+n.APIAddr()+"/readyz")
		return code == http.StatusServiceUnavailable
	})
	if code, _ := n.get(t, "http://"+n.APIAddr()+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz answers %d while leaving", code)
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if lines.Err() != nil || last != "data: [DONE]" {
		t.Errorf("the stream ended with %q, %v", last, lines.Err())
	}
	if err := n.result(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	at := -1
	for _, step := range []string{"not_ready", "drain_delay", "api", "cluster", "admin", "background", "telemetry"} {
		i := strings.Index(n.log.String(), "msg=stopping router=warmring step="+step+" ")
		if i <= at {
			t.Errorf("step %s is missing or out of order:\n%s", step, n.log)
		}
		at = i
	}
}

func TestShutdownCutsOffWhatExceedsTheGrace(t *testing.T) {
	m, url := startModel(t, "m")
	cfg := testConfig(url)
	cfg.Shutdown.Grace = 50 * time.Millisecond
	n := start(t, cfg)
	if err := m.SetFault(modelserver.Fault{Kind: modelserver.Stall, After: 2}); err != nil {
		t.Fatal(err)
	}
	resp := n.send(t, true, 100)
	defer resp.Body.Close()
	n.stop()
	if err := n.result(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if !strings.Contains(n.log.String(), `step=api`) || !strings.Contains(n.log.String(), "requests were cut off") {
		t.Errorf("nothing about it in the log:\n%s", n.log)
	}
	for _, l := range n.picker.Snapshot(time.Now()) {
		if l.InFlight != 0 {
			t.Errorf("%d in flight after the end", l.InFlight)
		}
	}
}

// What is pending when the end comes must reach the collector, although everything else has stopped by then.
func TestShutdownFlushesTheLastSpans(t *testing.T) {
	var exported atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if text, err := io.ReadAll(r.Body); err == nil && bytes.Contains(text, []byte("chat")) {
			exported.Add(1)
		}
	}))
	defer collector.Close()
	_, url := startModel(t, "m")
	cfg := testConfig(url)
	cfg.Telemetry.Traces.Exporter, cfg.Telemetry.Traces.Protocol, cfg.Telemetry.Traces.Endpoint = "otlp", "http/protobuf", collector.URL
	n := start(t, cfg)
	drainBody(t, n.send(t, false, 2))
	n.stop()
	if err := n.result(t); err != nil {
		t.Fatal(err)
	}
	if exported.Load() != 1 {
		t.Errorf("%d exports with the request's spans, want 1; log:\n%s", exported.Load(), n.log)
	}
}
