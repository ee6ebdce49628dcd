package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// startTestBackend runs the backend in this process and returns its addresses.
func startTestBackend(t *testing.T) []string {
	t.Helper()
	in, stop := io.Pipe()
	lines, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serveBackend(context.Background(), in, out) }()
	t.Cleanup(func() {
		_ = stop.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 1<<10)
	n, err := lines.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := readAddrs(string(line[:n]))
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

func TestCrewAgainstBackend(t *testing.T) {
	addrs := startTestBackend(t)
	for _, l := range []load{
		{name: "small", bodySize: 4 << 10, conns: 4},
		{name: "large", bodySize: 200 << 10, conns: 2},
		{name: "paced", bodySize: 4 << 10, conns: 4, rate: 1000},
		{name: "stream", bodySize: 4 << 10, conns: 4, answer: answer{events: 20}},
		{name: "slow stream", bodySize: 4 << 10, conns: 4, answer: answer{events: 3, pause: time.Millisecond}},
	} {
		t.Run(l.name, func(t *testing.T) {
			s, err := newScript(l)
			if err != nil {
				t.Fatal(err)
			}
			w, err := newCrew(t.Context(), s, addrs)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			out := w.work(t.Context(), 50*time.Millisecond)
			if out.failed > 0 || len(out.latencies) == 0 {
				t.Errorf("%d answers, %d failed: %v", len(out.latencies), out.failed, out.failure)
			}
			if l.rate > 0 && len(out.latencies) > 50 {
				t.Errorf("%d requests in 50 ms at %g/s", len(out.latencies), l.rate)
			}
		})
	}
}

func TestStreamLatencyIsThatOfTheFirstEvent(t *testing.T) {
	addrs := startTestBackend(t)
	s, err := newScript(load{bodySize: 4 << 10, conns: 1, answer: answer{events: 2, pause: 300 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := newCrew(t.Context(), s, addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	out := w.work(t.Context(), 100*time.Millisecond)
	if out.failed > 0 || len(out.latencies) != 1 {
		t.Fatalf("%d answers, %d failed: %v", len(out.latencies), out.failed, out.failure)
	}
	if out.elapsed < 300*time.Millisecond || out.latencies[0] > out.elapsed-200*time.Millisecond {
		t.Errorf("first event after %v of %v", out.latencies[0], out.elapsed)
	}
}

// serveBytes answers every connection with the same bytes and then closes it.
func serveBytes(t *testing.T, response string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m := newMessages(c, backendBuffer)
			if h, err := m.head(); err == nil && m.body(h, func([]byte) {}) == nil {
				_, _ = io.WriteString(c, response)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestClientFindsBadAnswers(t *testing.T) {
	s, err := newScript(load{bodySize: 4 << 10, conns: 1, answer: answer{events: 3}})
	if err != nil {
		t.Fatal(err)
	}
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(p []byte) string { return fmt.Sprintf("%x\r\n%s\r\n", len(p), p) }
	garbled := bytes.Replace(s.want, []byte("ttt"), []byte("tut"), 1)
	tests := []struct {
		name, response, wantText string
		wantErr                  error
	}{
		{name: "right", response: head + chunk(s.want) + "0\r\n\r\n"},
		{name: "right, in other chunks", response: head + chunk(s.want[:7]) + chunk(s.want[7:]) + "0\r\n\r\n"},
		{name: "cut in mid-stream", response: head + chunk(s.want[:200]), wantErr: io.ErrUnexpectedEOF},
		{name: "ended early, but in good form", response: head + chunk(s.want[:200]) + "0\r\n\r\n", wantErr: errWrongBody},
		{name: "too long", response: head + chunk(append(slices.Clip(s.want), '!')) + "0\r\n\r\n", wantErr: errWrongBody},
		{name: "another text", response: head + chunk(garbled) + "0\r\n\r\n", wantErr: errWrongBody},
		{name: "error status", response: "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", wantText: "503"},
		{name: "nothing", response: "", wantErr: io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := dial(t.Context(), serveBytes(t, tt.response), clientBuffer)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			_, err = c.do(s.requests[0], s.want)
			switch {
			case tt.wantErr != nil:
				if !errors.Is(err, tt.wantErr) {
					t.Errorf("error %v, want %v", err, tt.wantErr)
				}
			case tt.wantText != "":
				if err == nil || !strings.Contains(err.Error(), tt.wantText) {
					t.Errorf("error %v, want one with %q", err, tt.wantText)
				}
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// A target that cuts every stream costs failures, not an endless storm of connects.
func TestCrewGivesUp(t *testing.T) {
	s, err := newScript(load{bodySize: 4 << 10, conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := newCrew(t.Context(), s, []string{serveBytes(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	out := w.work(t.Context(), time.Minute)
	if out.failed != maxFailures || out.failure == nil || len(out.latencies) != 0 {
		t.Errorf("%d failed (%v), %d answers", out.failed, out.failure, len(out.latencies))
	}
}

func TestRequests(t *testing.T) {
	for _, size := range []int{4 << 10, 32 << 10, 200 << 10} {
		all, err := requests(size, answer{events: 5})
		if err != nil {
			t.Fatal(err)
		}
		beginnings := map[string]bool{}
		for _, raw := range all {
			_, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
			var c chat
			if err := json.Unmarshal(body, &c); err != nil {
				t.Fatal(err)
			}
			if len(body) != size || !c.Stream || len(c.Messages) < 2 {
				t.Errorf("%d bytes instead of %d, stream %v, %d messages", len(body), size, c.Stream, len(c.Messages))
			}
			beginnings[c.Messages[0].Content[:1024]] = true
		}
		if len(beginnings) != bodyVariants {
			t.Errorf("%d different beginnings, want %d", len(beginnings), bodyVariants)
		}
	}
	if _, err := requests(100, answer{}); err == nil {
		t.Error("a body of 100 bytes was possible")
	}
}

func TestAnswerSizes(t *testing.T) {
	if n := len(jsonAnswer()); n != jsonBytes || !json.Valid(jsonAnswer()) {
		t.Errorf("JSON answer of %d bytes, want %d: %s", n, jsonBytes, jsonAnswer())
	}
	events := streamAnswer(3)
	if len(events) != 3 || len(events[0]) != eventBytes || len(events[1]) != eventBytes {
		t.Errorf("events of %d and %d bytes, want %d", len(events[0]), len(events[1]), eventBytes)
	}
	if !bytes.HasSuffix(events[2], []byte("data: [DONE]\n\n")) {
		t.Errorf("the stream ends with %q", events[2])
	}
}
