package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pad is JSON white space, or a long string, that fills a body.
func pad(n int) string { return strings.Repeat("x", n) }

// A body at the limit passes, in bounded memory; one byte more is refused
// before the rest is read.
func TestBodyLimit(t *testing.T) {
	var got atomic.Int64
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
	})), nil)
	limit := int(25 * MiB)
	begin, end := `{"model":"llama","messages":[{"role":"user","content":"`, `"}]}`
	body := begin + pad(limit-len(begin)-len(end)) + end

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	res := e.do(t, "POST", "/v1/chat/completions", body)
	runtime.ReadMemStats(&after)
	if res.StatusCode != http.StatusOK || got.Load() != int64(limit) {
		t.Fatalf("at the limit: %d, the server got %d bytes: %s", res.StatusCode, got.Load(), res.body)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("25 MiB were carried with %d bytes of memory", used)
	}

	// The client sends the head only: an answer means that nothing was waited for.
	head := "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
	response, text := e.raw(t, fmt.Sprintf(head, "/v1/chat/completions", limit+1))
	if response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close || !strings.Contains(text, `"code":"request_too_large"`) || !strings.Contains(text, "25MiB") {
		t.Errorf("one byte more: %d, close %v, %s", response.StatusCode, response.Close, text)
	}
	response, text = e.raw(t, fmt.Sprintf(head, "/endpoints/llama/invocations", limit+1))
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("X-Amzn-ErrorType") != "ValidationError" || !response.Close {
		t.Errorf("one byte more for invoke: %d %v, %s", response.StatusCode, response.Header, text)
	}
}

// A chunked body has no length to refuse by: it is refused where it exceeds.
func TestChunkedBodyLimit(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})), func(c *Config, _ *Deps) {
		c.Limits.Body, c.Limits.ScanWindow = 64*KiB, 4*KiB
	})
	for _, path := range []string{"/v1/chat/completions", "/endpoints/llama/invocations"} {
		for _, over := range []bool{false, true} {
			c := e.dial(t)
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", path)
			begin, end := `{"model":"llama","messages":[{"role":"user","content":"`, `"}]}`
			n := int(64*KiB) - len(begin) - len(end)
			if over {
				n++
			}
			for _, piece := range []string{begin, pad(n), end} {
				_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece)
			}
			if !over {
				_, _ = io.WriteString(c, "0\r\n\r\n")
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := 200
			if over && path == "/v1/chat/completions" {
				want = 413
			} else if over {
				want = 400
			}
			if res.StatusCode != want {
				text, _ := io.ReadAll(res.Body)
				t.Errorf("%s, over %v: %d %s", path, over, res.StatusCode, text)
			}
		}
	}
}

// A client that stops in the middle of its body is told so in time.
func TestBodyTimeout(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), func(c *Config, _ *Deps) {
		c.Timeouts.Body = 50 * time.Millisecond
	})
	for _, path := range []string{"/v1/chat/completions", "/endpoints/llama/invocations"} {
		res, text := e.raw(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		if res.StatusCode != http.StatusRequestTimeout || !res.Close {
			t.Errorf("%s: %d, close %v: %s", path, res.StatusCode, res.Close, text)
		}
	}
}

// The timeout is for each piece: a slow but steady client succeeds, and an
// answer may take longer than it.
func TestBodyTimeoutIsPerPiece(t *testing.T) {
	const timeout = 200 * time.Millisecond
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(2 * timeout)
		_, _ = io.WriteString(w, "late")
	})), func(c *Config, _ *Deps) { c.Timeouts.Body = timeout })
	c := e.dial(t)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(hello))
	for piece := range strings.SplitAfterSeq(hello, ",") {
		<-time.After(timeout / 2)
		_, _ = io.WriteString(c, piece)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", res, err)
	}
}

// lateModel has `model` as the last field of a body of n bytes.
func lateModel(n int, model string) string {
	begin, end := `{"messages":[{"role":"user","content":"`, `"}],"model":"`+model+`"}`
	return begin + pad(n-len(begin)-len(end)) + end
}

// A model that comes behind the window is waited for, on account.
func TestLateModel(t *testing.T) {
	urls := modelServer(t, echo)
	e := newEdge(t, fleet(t, []string{"llama", "other"}, urls), func(c *Config, _ *Deps) {
		c.Limits.ScanWindow, c.Limits.Buffered = 16*KiB, 64*KiB
	})
	if res := e.do(t, "POST", "/v1/chat/completions", lateModel(40<<10, "llama")); res.StatusCode != http.StatusOK || len(res.body) != 40<<10 {
		t.Errorf("within the account: %d, %d bytes", res.StatusCode, len(res.body))
	}
	res := e.do(t, "POST", "/v1/chat/completions", lateModel(400<<10, "llama"))
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" || !strings.Contains(res.body, "model") {
		t.Errorf("beyond the account: %d %s", res.StatusCode, res.body)
	}
	if res := e.do(t, "POST", "/endpoints/llama/openai/v1/chat/completions", lateModel(400<<10, "llama")); res.StatusCode != http.StatusOK || len(res.body) != 400<<10 {
		t.Errorf("with the endpoint in the URL: %d, %d bytes", res.StatusCode, len(res.body))
	}
	for range 3 {
		e.record(t)
	}
	if held := e.api.buffers.held.Load(); held != 0 {
		t.Errorf("%d bytes are still booked", held)
	}
}

// A backend may answer before it has the whole body; the connection must be
// usable afterwards, or closed, and nothing may panic.
func TestEarlyAnswer(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 10<<10 {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusBadRequest)
		}
	})), func(c *Config, _ *Deps) { c.Limits.ScanWindow = 4 * KiB })
	for range 20 {
		for _, size := range []int{100 << 10, 3 << 20} {
			body := strings.Replace(hello, "hello", pad(size), 1)
			ctx := t.Context()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				continue // the connection was closed under the body: allowed
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				t.Fatalf("got %d", res.StatusCode)
			}
		}
		if res := e.do(t, "POST", "/v1/chat/completions", hello); res.StatusCode != http.StatusOK {
			t.Fatalf("after it: %d", res.StatusCode)
		}
	}
	if log := e.log.String(); strings.Contains(log, "panic") {
		t.Error(log)
	}
}

// nested yields n opening brackets and counts what was taken of them.
type nested struct {
	left int
	read atomic.Int64
}

func (n *nested) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	k := min(len(p), n.left)
	copy(p, bytes.Repeat([]byte("["), k))
	n.left -= k
	n.read.Add(int64(k))
	return k, nil
}

func TestBadBodies(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), func(c *Config, _ *Deps) {
		c.Limits.Body = 128 * MiB
	})
	for _, body := range []string{
		"", "{", "[]", "null", "nonsense", `"text"`, `{"messages":3}`, `{"messages":"a"}`, `{"model":1,"messages":[]}`,
		`{"messages":[1]}`, `{"messages":[{"role":"user","content":{"a":1}}]}`, `{"model":"llama"}`, hello + "x",
		"\x00", "{\x00}", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\x00b\"}]}", strings.Repeat("[", 100000),
		`{"messages":[{"role":"user","content":"` + "\n" + `"}]}`,
	} {
		res := e.do(t, "POST", "/v1/chat/completions", body)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(res.body, `"type":"invalid_request_error"`) {
			t.Errorf("%.40q: %d %s", body, res.StatusCode, res.body)
		}
		if body == "" {
			continue
		}
		if res := e.do(t, "POST", "/endpoints/llama/invocations", body); res.StatusCode != http.StatusOK || res.body != body {
			t.Errorf("invoke does not pass %.40q: %d %.100q", body, res.StatusCode, res.body)
		}
	}

	arrays := &nested{left: 100 << 20}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/v1/chat/completions", arrays)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || arrays.read.Load() > 50<<20 {
		t.Errorf("100 MB of nested arrays: %d after %d bytes", res.StatusCode, arrays.read.Load())
	}
}

func TestCompressedBody(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	if res := e.do(t, "POST", "/v1/chat/completions", hello, "Content-Encoding", "gzip"); res.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(res.body, "Content-Encoding") {
		t.Errorf("gzip: %d %s", res.StatusCode, res.body)
	}
	for _, coding := range []string{"identity", "Identity"} {
		if res := e.do(t, "POST", "/v1/chat/completions", hello, "Content-Encoding", coding); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", coding, res.StatusCode, res.body)
		}
	}
}

// Small bodies must not hold on to large buffers, nor wrong sizes get pooled.
func TestBuffers(t *testing.T) {
	s := &buffers{window: 1 << 20, limit: 1 << 20}
	for _, c := range []struct{ ask, size int }{{0, 4096}, {4096, 4096}, {4097, 16384}, {1 << 20, 1 << 20}, {4 << 20, 4 << 20}, {5 << 20, 5 << 20}} {
		b := s.get(c.ask)
		if cap(b.b) != c.size {
			t.Errorf("get(%d) has %d bytes, want %d", c.ask, cap(b.b), c.size)
		}
		b.b = append(b.b, "content"...)
		grown := s.grow(b)
		if string(grown.b) != "content" || cap(grown.b) < 2*c.size {
			t.Errorf("grow(%d) has %q in %d bytes", c.size, grown.b, cap(grown.b))
		}
		s.put(grown)
	}
	if !s.charge(1<<20) || s.charge(1) || s.held.Load() != 1<<20 {
		t.Error("the account is wrong")
	}
}

func TestHeaderLimit(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	for size, status := range map[int]int{30 << 10: 200, 100 << 10: 431} {
		if res := e.do(t, "POST", "/v1/chat/completions", hello, "X-Large", pad(size)); res.StatusCode != status {
			t.Errorf("%d bytes: %d", size, res.StatusCode)
		}
	}
}
