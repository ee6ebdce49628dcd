package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		target, name, endpoint, component, path, id string
		dialect                                     Dialect
	}{
		{target: "/v1/chat/completions", name: "chat_completions", path: "/v1/chat/completions", dialect: OpenAI},
		{target: "/v1/chat/completions/", name: "chat_completions", path: "/v1/chat/completions", dialect: OpenAI},
		{target: "/v1/completions", name: "completions", path: "/v1/completions", dialect: OpenAI},
		{target: "/v1/responses", name: "responses", path: "/v1/responses", dialect: OpenAI},
		{target: "/v1/embeddings", name: "embeddings", path: "/v1/embeddings", dialect: OpenAI},
		{target: "/v1/rerank", name: "rerank", path: "/v1/rerank", dialect: OpenAI},
		{target: "/v1/score", name: "score", path: "/v1/score", dialect: OpenAI},
		{target: "/v1/messages", name: "messages", path: "/v1/messages", dialect: OpenAI},
		{target: "http://elsewhere:1/v1/score", name: "score", path: "/v1/score", dialect: OpenAI},
		{target: "/v1/%63ompletions", name: "completions", path: "/v1/completions", dialect: OpenAI},
		{target: "/v1/models", name: "models", dialect: OpenAI},
		{target: "/v1/models/meta%2Fllama", name: "model", id: "meta/llama", dialect: OpenAI},
		{target: "/v1/models/meta/llama", name: "model", id: "meta/llama", dialect: OpenAI},
		{target: "/v1/responses/resp_1", name: "other", path: "/v1/responses/resp_1", dialect: OpenAI},
		{target: "/v1", name: "other", path: "/v1", dialect: OpenAI},
		{target: "//v1/chat/completions", name: "other", path: "//v1/chat/completions", dialect: OpenAI},
		{target: "/tokenize", name: "other", path: "/tokenize", dialect: OpenAI},
		{target: "/healthz", name: "health", dialect: OpenAI},
		{target: "/readyz/", name: "ready", dialect: OpenAI},
		{target: "/", name: "control", dialect: SageMaker},
		{target: "/v1/chat%2Fcompletions", name: "other", path: "/v1/chat%2Fcompletions", dialect: OpenAI},
		{target: "/endpoints/a%2Fb/openai/v1/chat/completions", name: "chat_completions", endpoint: "a/b", path: "/v1/chat/completions", dialect: OpenAI},
		{target: "/endpoints/e/inference-components/c/openai/v1/completions/", name: "completions", endpoint: "e", component: "c", path: "/v1/completions", dialect: OpenAI},
		{target: "/endpoints/e/openai/v1/models", name: "models", endpoint: "e", dialect: OpenAI},
		{target: "/endpoints/openai/openai/v1/classify", name: "other", endpoint: "openai", path: "/v1/classify", dialect: OpenAI},
		{target: "/endpoints/e/inference-components/c/openai/tokenize", name: "other", endpoint: "e", component: "c", path: "/tokenize", dialect: OpenAI},
		{target: "/endpoints/e/invocations", name: "invocations", endpoint: "e", path: "/invocations", dialect: SageMaker},
		{target: "/endpoints/e/invocations-response-stream/", name: "invocations_stream", endpoint: "e", path: "/invocations", dialect: SageMaker},
		{target: "/endpoints/e/async-invocations", name: "unsupported", endpoint: "e", path: "/invocations", dialect: SageMaker},
		{target: "/endpoints/e/nonsense", name: "other", dialect: SageMaker},
		{target: "/endpoints/e/openai", name: "other", dialect: SageMaker},
		{target: "/endpoints/e", name: "other", path: "/endpoints/e", dialect: OpenAI},
		{target: "/a/b/c/d/e/f/g/h/i/j/k/l", name: "other", path: "/a/b/c/d/e/f/g/h/i/j/k/l", dialect: OpenAI},
	} {
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		r := parse(u)
		got := fmt.Sprint(r.name, r.endpoint, r.component, r.path, r.id, r.dialect)
		if want := fmt.Sprint(c.name, c.endpoint, c.component, c.path, c.id, c.dialect); got != want {
			t.Errorf("%s: got %s, want %s", c.target, got, want)
		}
	}
}

// Methods, slashes and escapes as clients send them: never a redirect.
func TestRoutes(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/v1/chat/completions", 200, ""},
		{"POST", "/v1/chat/completions/", 200, ""},
		{"POST", "/endpoints/llama/openai/v1/chat/completions", 200, ""},
		{"POST", "/endpoints/ll%61ma/openai/v1/chat/completions?a=b", 200, ""},
		{"POST", "/endpoints/llama/inference-components/llama-lora/openai/v1/chat/completions", 200, ""},
		{"POST", "/endpoints/llama/invocations", 200, ""},
		{"GET", "/v1/chat/completions", 405, "OPTIONS, POST"},
		{"PUT", "/endpoints/llama/invocations", 405, "OPTIONS, POST"},
		{"OPTIONS", "/v1/chat/completions", 204, "OPTIONS, POST"},
		{"OPTIONS", "/v1/models", 204, "GET, HEAD, OPTIONS"},
		{"POST", "/v1/models", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/v1/models", 200, ""},
		{"HEAD", "/v1/models/", 200, ""},
		{"GET", "/v1/models/llama", 200, ""},
		{"GET", "/v1/models/nobody", 404, ""},
		{"GET", "/endpoints/llama/openai/v1/models/llama-lora", 200, ""},
		{"GET", "/endpoints/nobody/openai/v1/models", 400, ""},
		{"GET", "/healthz", 200, ""},
		{"HEAD", "/healthz/", 200, ""},
		{"GET", "/readyz", 200, ""},
		{"POST", "/readyz", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/", 404, ""},
		{"POST", "/", 404, ""},
		{"GET", "//v1//models", 404, ""},
		{"POST", "/v1/../v1/models", 404, ""},
		{"POST", "/tokenize", 404, ""},
		{"POST", "/endpoints/llama/async-invocations", 400, ""},
		{"POST", "/endpoints/llama/invocations-bidirectional-stream", 400, ""},
	} {
		got := e.do(t, c.method, c.path, hello)
		if got.StatusCode != c.status || got.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d, Allow %q, want %d, %q: %s", c.method, c.path, got.StatusCode, got.Header.Get("Allow"), c.status, c.allow, got.body)
		}
		if c.method == "POST" && c.status == 200 && got.body != hello {
			t.Errorf("%s %s: the body became %q", c.method, c.path, got.body)
		}
		if got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: no request id", c.method, c.path)
		}
	}
}

// raw sends text on a connection of its own and returns what comes back.
func (e *edge) raw(t testing.TB, text string) (*http.Response, string) {
	t.Helper()
	c := e.dial(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func (e *edge) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// What Go's own client does not send.
func TestRawRequests(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", strings.Join(r.Header.Values("X-Twice"), "+")+r.Header.Get("Expect"))
		echo(w, r)
	})), nil)
	absolute := fmt.Sprintf("POST http://example.test/v1/chat/completions HTTP/1.1\r\nHost: other\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
	res, body := e.raw(t, absolute)
	if res.StatusCode != http.StatusOK || body != hello || res.Header.Get("X-Seen") != "a+b" {
		t.Errorf("absolute form: %d %q, seen %q", res.StatusCode, body, res.Header.Get("X-Seen"))
	}
	if res, _ := e.raw(t, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != http.StatusOK {
		t.Errorf("OPTIONS *: %d", res.StatusCode)
	}
	if res, _ := e.raw(t, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"); res.StatusCode != http.StatusNotFound {
		t.Errorf("CONNECT: %d", res.StatusCode)
	}
	chunked := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hello), hello)
	if res, body := e.raw(t, chunked); res.StatusCode != http.StatusOK || body != hello {
		t.Errorf("chunked: %d %q", res.StatusCode, body)
	}
	if res, body := e.raw(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "bad_request") {
		t.Errorf("bad chunks: %d %q", res.StatusCode, body)
	}
}

func TestExpectContinue(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	c := e.dial(t)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(hello))
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("got %q, %v before the body", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(c, hello)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", res, err)
	}

	// A request that is refused is refused before its body is asked for.
	c = e.dial(t)
	_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
	res, err = http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %v, %v", res, err)
	}
}
