package modelserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

const streamBody = `{"prompt":"Tell me","max_tokens":20,"stream":true}`

// post sends a completion request and returns when headers or an error come.
func post(ctx context.Context, t *testing.T, client *http.Client, s *mstest.Running, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(req)
}

// events reads a stream to its end and counts its events.
func events(resp *http.Response) (int, error) {
	n := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			n++
		}
	}
	return n, lines.Err()
}

// set puts a fault in force.
func set(t *testing.T, s *mstest.Running, f modelserver.Fault) {
	t.Helper()
	if err := s.Server.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

// eventually fails the test unless the server's counters come to satisfy ok.
func eventually(t *testing.T, s *mstest.Running, what string, ok func(modelserver.Stats) bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok(s.Server.Stats()) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s: %+v", what, s.Server.Stats())
		}
		time.Sleep(time.Millisecond)
	}
}

func quiet(st modelserver.Stats) bool {
	return st.Waiting == 0 && st.Running == 0 && st.BlocksUsed == 0 && st.Received == st.Served+st.Aborted
}

func TestRefuseAndBack(t *testing.T) {
	s := mstest.Start(t, fast())
	client := newClient(t)
	works := func() {
		t.Helper()
		resp, err := post(t.Context(), t, client, s, streamBody)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := events(resp); n != 22 || err != nil { // 20 tokens, the end, [DONE]
			t.Fatalf("%d events, %v", n, err)
		}
	}
	works() // leaves an idle connection behind
	for range 3 {
		set(t, s, modelserver.Fault{Kind: modelserver.Refuse})
		var dialer net.Dialer
		if _, err := dialer.DialContext(t.Context(), "tcp", s.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial: %v, want a refusal", err)
		}
		if _, err := post(t.Context(), t, client, s, streamBody); err == nil {
			t.Fatal("an idle connection survived")
		}
		set(t, s, modelserver.Fault{})
		works()
	}
}

func TestRefuseLetsStreamsFinish(t *testing.T) {
	s := mstest.Start(t, fast())
	resp, err := post(t.Context(), t, newClient(t), s, strings.Replace(streamBody, "20", "500", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	set(t, s, modelserver.Fault{Kind: modelserver.Refuse})
	if n, err := events(resp); n != 502 || err != nil {
		t.Errorf("%d events, %v; want all 502", n, err)
	}
}

func TestHangUntilTheClientLeaves(t *testing.T) {
	s := mstest.Start(t, fast())
	set(t, s, modelserver.Fault{Kind: modelserver.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := post(ctx, t, newClient(t), s, streamBody); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging server answered: %v", err)
	}
	if st := s.Server.Stats(); st.Requests != 1 || st.Received != 0 {
		t.Errorf("want one request, none in the engine: %+v", st)
	}
}

func TestHangThatHealsGoesOn(t *testing.T) {
	s := mstest.Start(t, fast())
	set(t, s, modelserver.Fault{Kind: modelserver.Hang})
	done := make(chan error, 1)
	go func() {
		resp, err := post(t.Context(), t, newClient(t), s, streamBody)
		if err == nil {
			_, err = events(resp)
			_ = resp.Body.Close()
		}
		done <- err
	}()
	eventually(t, s, "arrived", func(st modelserver.Stats) bool { return st.Requests == 1 })
	set(t, s, modelserver.Fault{})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStallMidStream(t *testing.T) {
	s := mstest.Start(t, fast())
	set(t, s, modelserver.Fault{Kind: modelserver.Stall, After: 3, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := post(ctx, t, newClient(t), s, streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make(chan string, 100)
	go func() {
		defer close(got)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if lines.Text() != "" {
				got <- lines.Text()
			}
		}
	}()
	for range 3 {
		<-got
	}
	select {
	case line := <-got:
		t.Errorf("came after the stall: %s", line)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	eventually(t, s, "the stalled request is gone", quiet)

	// Times has run out.
	resp, err = post(t.Context(), t, newClient(t), s, streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := events(resp); n != 22 || err != nil {
		t.Errorf("the next request: %d events, %v", n, err)
	}
}

func TestDie(t *testing.T) {
	s := mstest.Start(t, fast())
	set(t, s, modelserver.Fault{Kind: modelserver.Die, After: 3})
	resp, err := post(t.Context(), t, newClient(t), s, streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := events(resp); n != 3 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d events, then %v; want 3, then a reset", n, err)
	}

	// Not streamed: half of the body.
	resp, err = post(t.Context(), t, newClient(t), s, `{"prompt":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil || len(body) == 0 || int64(len(body)) >= resp.ContentLength {
		t.Errorf("%d of %d bytes, %v", len(body), resp.ContentLength, err)
	}

	set(t, s, modelserver.Fault{Kind: modelserver.Die})
	if resp, err := post(t.Context(), t, newClient(t), s, streamBody); err == nil {
		t.Errorf("headers came: %v", resp.Header)
	}
	eventually(t, s, "all requests are gone", quiet)
}

func TestStatusFaultOverHTTP(t *testing.T) {
	s := mstest.Start(t, fast())
	resp, body := do(t, "POST", s.URL+"/control/fault", `{"kind":"status","status":429,"retry_after":7,"times":1}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"status":429`) {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := do(t, "GET", s.URL+"/health", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("health: %d", resp.StatusCode)
	}
	resp, body = do(t, "POST", s.URL+"/v1/completions", streamBody)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "7" || !strings.Contains(body, `"code":429`) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, _ := do(t, "POST", s.URL+"/v1/completions", streamBody); resp.StatusCode != http.StatusOK {
		t.Errorf("after the one time: %d", resp.StatusCode)
	}
	do(t, "POST", s.URL+"/control/fault", `{"kind":"status","status":503,"probes":true}`)
	if resp, _ := do(t, "GET", s.URL+"/health", ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("health with probes: %d", resp.StatusCode)
	}
	do(t, "POST", s.URL+"/control/fault", `{}`)
	if _, body := do(t, "GET", s.URL+"/control/fault", ""); body != `{"kind":""}`+"\n" {
		t.Errorf("healed: %s", body)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	s := mstest.Start(t, fast())
	set(t, s, modelserver.Fault{Kind: modelserver.Idle, Delay: 30 * time.Millisecond})
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range 2 { // in use again before it is closed
		if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Close {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection ended with %v, want EOF", err)
	}
}

func TestClientsThatLeave(t *testing.T) {
	cfg := fast()
	cfg.Speed, cfg.DefaultAnswer = 10, 5000
	s := mstest.Start(t, cfg)
	client := newClient(t)
	for _, body := range []string{`{"prompt":"x","stream":true}`, `{"prompt":"x"}`} {
		before := s.Server.Stats()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := post(ctx, t, client, s, body); err == nil {
				_, _ = events(resp) // ends with the cancellation
				_ = resp.Body.Close()
			}
		}()
		eventually(t, s, "tokens are made", func(st modelserver.Stats) bool { return st.GeneratedTokens > before.GeneratedTokens })
		cancel()
		<-done
		eventually(t, s, "the request is gone", quiet)
		if st := s.Server.Stats(); st.Aborted != before.Aborted+1 || st.Served != 0 {
			t.Errorf("want one more aborted: %+v", st)
		}
	}
}

func TestStopCutsStreams(t *testing.T) {
	cfg := fast()
	cfg.DefaultAnswer = 100_000
	s := mstest.Start(t, cfg)
	resp, err := post(t.Context(), t, newClient(t), s, `{"prompt":"x","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	whole := make(chan error, 1)
	go func() { // not streamed: must not look like an empty answer
		resp, err := post(t.Context(), t, newClient(t), s, `{"prompt":"x"}`)
		if err == nil {
			err = resp.Body.Close()
		}
		whole <- err
	}()
	eventually(t, s, "both run", func(st modelserver.Stats) bool { return st.Running == 2 })
	s.Stop()
	if _, err := events(resp); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	if err := <-whole; err == nil {
		t.Error("the request was answered")
	}
}
