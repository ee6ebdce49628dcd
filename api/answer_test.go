package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing/proxy"
)

// Custom headers reach the server, its headers the client, hop-by-hop ones
// neither.
func TestHeaders(t *testing.T) {
	var seen http.Header
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		h := w.Header()
		h.Set("Retry-After", "7")
		h.Set("X-Ratelimit-Remaining", "3")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Content-Encoding", "gzip")
		h.Set("Trailer", "X-Sum")
		h["Content-Type"] = nil
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "\x1f\x8b")
		h.Set("X-Sum", "9")
	})), nil)
	res := e.do(t, "POST", "/v1/chat/completions", hello, "X-Custom", "yes", "Authorization", "Bearer model-server-key",
		"Connection", "X-Hop", "X-Hop", "no", "X-Request-Id", "mine", "Traceparent", "00-1-2-01", "Accept-Encoding", "gzip")
	if seen.Get("X-Custom") != "yes" || seen.Get("Authorization") != "Bearer model-server-key" || seen.Get("X-Request-Id") != "mine" || seen.Get("Traceparent") != "00-1-2-01" {
		t.Errorf("the server got %v", seen)
	}
	if seen.Get("X-Hop") != "" {
		t.Errorf("a hop-by-hop header reached the server: %v", seen)
	}
	h := res.Header
	if res.StatusCode != http.StatusTeapot || h.Get("Retry-After") != "7" || h.Get("X-Ratelimit-Remaining") != "3" || h.Get("Content-Encoding") != "gzip" {
		t.Errorf("the client got %d %v", res.StatusCode, h)
	}
	if h.Get("Keep-Alive") != "" || h.Get("Content-Type") != "" {
		t.Errorf("the client got what it should not: %v", h)
	}
	if res.body != "\x1f\x8b" || res.Trailer.Get("X-Sum") != "9" {
		t.Errorf("body %q, trailer %v", res.body, res.Trailer)
	}
	if h.Get("X-Request-Id") != "mine" || h.Get("X-Warmring-Router") != "r1" || h.Get("X-Warmring-Backend") != "server-a" ||
		h.Get("X-Warmring-Epoch") != "1.1" || h.Get("X-Warmring-Home") != "server-a" || h.Get("X-Warmring-Decision") == "" {
		t.Errorf("our own headers: %v", h)
	}
	rec := e.record(t)
	if rec.Route != "chat_completions" || rec.Dialect != OpenAI || rec.Status != http.StatusTeapot || rec.Backend != "server-a" || rec.Err != nil || rec.Code != "" {
		t.Errorf("recorded %+v", rec)
	}
}

func TestNoOwnHeaders(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), func(c *Config, _ *Deps) { c.Headers = false })
	for name := range e.do(t, "POST", "/v1/chat/completions", hello).Header {
		if strings.HasPrefix(name, "X-Warmring") {
			t.Errorf("got %s", name)
		}
	}
}

func TestQueryReachesTheServer(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	res := e.do(t, "POST", "/endpoints/llama/openai/v1/chat/completions?api-version=1", hello)
	if got := res.Header.Get("X-Path"); got != "/v1/chat/completions?api-version=1" {
		t.Errorf("the server was asked for %q", got)
	}
}

// speaking is a client of one version of HTTP, in clear text.
func speaking(http2 bool) *http.Transport {
	var p http.Protocols
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	return &http.Transport{Protocols: &p, DialContext: new(net.Dialer).DialContext}
}

// HTTP/2 has no request line that a space would break, but a backend has.
func TestSpaceInQuery(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	transport := speaking(true)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/v1/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.RawQuery = "a b"
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if rec := e.record(t); res.StatusCode != http.StatusBadRequest || rec.Code != "bad_request" || rec.Attempts != 0 {
		t.Errorf("%d %+v", res.StatusCode, rec)
	}
}

// Events pass one by one: each is with the client before the server goes on.
func TestEventsAreFlushed(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		next := make(chan struct{})
		e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 20 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		})), nil)
		transport := speaking(http2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/chat/completions", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if (res.ProtoMajor == 2) != http2 {
			t.Fatalf("spoke %s", res.Proto)
		}
		in := bufio.NewReader(res.Body)
		for i := range 20 {
			line, err := in.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("event %d: %q, %v", i, line, err)
			}
			_, _ = in.ReadString('\n')
			next <- struct{}{}
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("the stream ends with %v", err)
		}
		_ = res.Body.Close()
		cancel()
		transport.CloseIdleConnections()
	}
}

// A stream that breaks ends with an event that says so and does not look
// complete; so does any other answer, without the event.
func TestBrokenAnswer(t *testing.T) {
	const responses, messages = "/v1/responses", "/v1/messages"
	for _, c := range []struct {
		route, contentType, sent, want string
	}{
		{chatRoute, "text/event-stream", "data: 1\n\n", "data: 1\n\ndata: {\"error\":{"},
		{chatRoute, "text/event-stream", "data: 1\r\n\r\n", "data: 1\r\n\r\ndata: {\"error\":{"},
		{chatRoute, "text/event-stream", "data: {\"a", "data: {\"a\n\ndata: {\"error\":{"},
		{chatRoute, "application/json", `{"a"`, `{"a"`},
		{responses, "text/event-stream", "data: 1\n\n", "data: 1\n\nevent: error\ndata: {\"type\":\"error\",\"message\":"},
		{messages, "text/event-stream", "data: 1\n\n", "data: 1\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""},
	} {
		e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.contentType)
			_, _ = io.WriteString(w, c.sent)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})), nil)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+c.route, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Errorf("%q looks complete: %q", c.sent, text)
		}
		if !strings.HasPrefix(string(text), c.want) {
			t.Errorf("%q became %q", c.sent, text)
		}
		if _, data, ok := strings.Cut(string(text[len(c.sent):]), "data: "); ok && !json.Valid([]byte(data)) {
			t.Errorf("%s is no JSON", data)
		}
		if rec := e.record(t); rec.Code != "upstream_broken" || rec.Status != 200 || rec.Err == nil {
			t.Errorf("recorded %+v", rec)
		}
	}
}

// A client that stops reading is given up after the write timeout.
func TestSlowClient(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		block := []byte(pad(64 << 10))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})), func(c *Config, _ *Deps) { c.Timeouts.Write = 100 * time.Millisecond })
	c := e.dial(t)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
	if rec := e.record(t); rec.Code != "client_gone" || rec.Broken == nil {
		t.Errorf("recorded %+v", rec)
	}
}

// A client that leaves cancels its request.
func TestClientLeaves(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(ended)
	})), nil)
	c := e.dial(t)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello)
	<-began
	_ = c.Close()
	<-ended
	if rec := e.record(t); rec.Status != 499 || rec.Code != "client_gone" {
		t.Errorf("recorded %+v", rec)
	}
}

func TestForwardOther(t *testing.T) {
	urls := modelServer(t, echo)
	e := newEdge(t, fleet(t, []string{"llama"}, urls), func(c *Config, _ *Deps) { c.ForwardOther = true })
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/tokenize", "/tokenize"},
		{"GET", "/version?x=1", "/version?x=1"},
		{"POST", "/endpoints/llama/openai/tokenize", "/tokenize"},
		{"GET", "/endpoints/llama/openai/v1/responses/r%2F1", "/v1/responses/r%2F1"},
	} {
		res := e.do(t, c.method, c.path, "body")
		if res.StatusCode != http.StatusOK || res.Header.Get("X-Path") != c.want || res.body != "body" {
			t.Errorf("%s: %d, asked for %q, %q", c.path, res.StatusCode, res.Header.Get("X-Path"), res.body)
		}
		if rec := e.record(t); rec.Route != "other" {
			t.Errorf("%s: recorded %+v", c.path, rec)
		}
	}
	if res := e.do(t, "POST", "/endpoints/llama/nonsense", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown operation: %d", res.StatusCode)
	}
	two := newEdge(t, fleet(t, []string{"llama", "other"}, urls), func(c *Config, _ *Deps) { c.ForwardOther = true })
	if res := two.do(t, "POST", "/tokenize", `{"model":"other"}`); res.StatusCode != http.StatusBadRequest || !strings.Contains(res.body, "/endpoints/{name}/openai") || strings.Contains(res.body, "`model`") {
		t.Errorf("with two endpoints: %d %s", res.StatusCode, res.body)
	}
}

// Nothing of an earlier request may be left in a later one.
func TestExchangesAreClean(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}), withProxy(func(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
		if err := a.Begin(&proxy.Reply{Status: 200, Lease: lease(r)}); err != nil {
			return proxy.Result{}, err
		}
		_, err := fmt.Fprintf(a, "%s %q %d", r.Path, r.Tenant, len(r.Body.Head))
		a.End(nil, nil)
		return proxy.Result{Status: 200}, err
	}))
	tenant := `{"prompt_cache_key":"t","messages":[]}`
	for range 10 {
		for body, want := range map[string]string{
			hello:  fmt.Sprintf(`/v1/chat/completions "" %d`, len(hello)),
			tenant: fmt.Sprintf(`/v1/chat/completions "t" %d`, len(tenant)),
		} {
			if res := e.do(t, "POST", "/v1/chat/completions", body); res.body != want {
				t.Errorf("got %s, want %s", res.body, want)
			}
		}
	}
}
