package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/node"
)

const chatBody = `{"model":"demo","messages":[{"role":"user","content":"Why is the sky blue?"}],"max_tokens":4}`

// behind returns the URL of a router whose endpoint demo has one server, the
// handler.
func behind(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return route(t, []node.BackendConfig{{URL: server.URL, Endpoint: demo, Weight: 1}})
}

// plainClient does not unpack answers and does not follow redirects.
func plainClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, ExpectContinueTimeout: limit}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchange sends a request and returns the answer with its body.
func exchange(t *testing.T, client *http.Client, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // it was read to its end
	return answer, string(text)
}

// TestHeaders: what a client says reaches the server and back, except for what
// concerns one connection only.
func TestHeaders(t *testing.T) {
	const body = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	var got http.Header
	url := behind(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		h := w.Header()
		h["X-Twice"] = []string{"1", "2"}
		h.Set("X-Ratelimit-Remaining-Requests", "59")
		h.Set("Retry-After", "3")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Content-Type", "application/json")
		h.Set("Content-Encoding", "gzip")
		h.Set("Trailer", "X-Checksum")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, body) // the client sees what is missing
		_ = z.Close()
		h.Set("X-Checksum", "abc")
	})
	answer, text := exchange(t, plainClient(t), http.MethodPost, url+"/v1/chat/completions", chatBody, http.Header{
		"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"}, "X-Custom": {"a", "b"}, "Openai-Organization": {"org"},
		"Authorization": {"Bearer any"}, "Connection": {"X-Private"}, "X-Private": {"1"}, "Te": {"trailers"},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	})
	for name, want := range map[string][]string{
		"X-Custom": {"a", "b"}, "Openai-Organization": {"org"}, "Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"},
		"X-Private": nil,
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("request header %s (-want +got):\n%s", name, diff)
		}
	}
	if trace := got.Get("Traceparent"); !strings.HasPrefix(trace, "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("the server got the trace %q", trace)
	}
	for name, want := range map[string][]string{
		"X-Twice": {"1", "2"}, "X-Ratelimit-Remaining-Requests": {"59"}, "Retry-After": {"3"}, "Content-Encoding": {"gzip"},
		"X-Hop": nil, "Keep-Alive": nil,
	} {
		if diff := cmp.Diff(want, answer.Header[name]); diff != "" {
			t.Errorf("response header %s (-want +got):\n%s", name, diff)
		}
	}
	if got := answer.Trailer.Get("X-Checksum"); got != "abc" {
		t.Errorf("trailer: %q", got)
	}
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != body {
		t.Errorf("body: %q (%v)", plain, err)
	}
}

// TestOddRequests: methods, slashes and escapes are answered as they stand,
// never with a redirect.
func TestOddRequests(t *testing.T) {
	c := start(t)
	client := plainClient(t)
	const chat = "/v1/chat/completions"
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodPost, chat, http.StatusOK, ""},
		{http.MethodPost, chat + "/", http.StatusOK, ""},
		{http.MethodPost, chat + "?a=b", http.StatusOK, ""},
		{http.MethodPost, "/endpoints/demo/openai/v1/chat/completions/", http.StatusOK, ""},
		{http.MethodPost, "/endpoints/demo/invocations/", http.StatusOK, ""},
		{http.MethodPost, "/endpoints/de%6do/openai" + chat, http.StatusOK, ""},
		{http.MethodPost, "/endpoints/de%2Fmo/openai" + chat, http.StatusBadRequest, ""},
		{http.MethodPost, "/v1//chat/completions", http.StatusNotFound, ""},
		{http.MethodPost, "/v1/../v1/chat/completions", http.StatusNotFound, ""},
		{http.MethodGet, chat, http.StatusMethodNotAllowed, "OPTIONS, POST"},
		{http.MethodHead, chat, http.StatusMethodNotAllowed, "OPTIONS, POST"},
		{http.MethodOptions, chat, http.StatusNoContent, "OPTIONS, POST"},
		{http.MethodOptions, "/v1/models", http.StatusNoContent, "GET, HEAD, OPTIONS"},
		{http.MethodHead, "/v1/models", http.StatusOK, ""},
		{http.MethodGet, "/v1/models/", http.StatusOK, ""},
		{http.MethodGet, "/v1/models/org%2Fname", http.StatusNotFound, ""},
		{http.MethodGet, "/v1/models/org/name", http.StatusNotFound, ""},
		{http.MethodDelete, "/v1/models/demo", http.StatusMethodNotAllowed, "GET, HEAD, OPTIONS"},
		{http.MethodGet, "/nothing", http.StatusNotFound, ""},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			body := ""
			if test.method == http.MethodPost {
				body = chatBody
			}
			answer, text := exchange(t, client, test.method, c.url+test.path, body, http.Header{"Content-Type": {"application/json"}})
			if answer.StatusCode != test.status || answer.Header.Get("Allow") != test.allow {
				t.Errorf("got %s, Allow %q, want %d, %q: %s", answer.Status, answer.Header.Get("Allow"), test.status, test.allow, text)
			}
			if test.status >= 400 && test.method != http.MethodHead {
				var e struct {
					Error struct{ Message, Type string }
				}
				if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
					t.Errorf("not an error in OpenAI's shape: %s (%v)", text, err)
				}
			}
			if test.method == http.MethodHead && text != "" {
				t.Errorf("the answer to HEAD has a body: %s", text)
			}
		})
	}
}

// dialRaw opens a connection on which a test writes HTTP/1.1 itself.
func dialRaw(t *testing.T, c *cluster) (net.Conn, *bufio.Reader) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(within(t), "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// wantStatus reads one answer, body included.
func wantStatus(t *testing.T, from *bufio.Reader, status int) {
	t.Helper()
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("got %s, want %d: %s (%v)", answer.Status, status, text, err)
	}
}

// TestExpectContinue: a client that waits for permission gets it, and one whose
// body will not be wanted gets the error instead.
func TestExpectContinue(t *testing.T) {
	c := start(t)
	conn, from := dialRaw(t, c)
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
	for range 2 { // the connection stays usable
		_, _ = fmt.Fprintf(conn, head, len(chatBody)) // a failure shows when reading
		wantStatus(t, from, http.StatusContinue)
		_, _ = io.WriteString(conn, chatBody)
		wantStatus(t, from, http.StatusOK)
	}
	_, _ = fmt.Fprintf(conn, head, 1<<40)
	wantStatus(t, from, http.StatusRequestEntityTooLarge)

	answer, text := exchange(t, plainClient(t), http.MethodPost, c.url+"/v1/chat/completions", chatBody, http.Header{"Expect": {"100-continue"}})
	if answer.StatusCode != http.StatusOK {
		t.Errorf("net/http's client: %s: %s", answer.Status, text)
	}
}

// TestRawForms: request lines and framings that SDKs do not send but proxies
// and old clients do.
func TestRawForms(t *testing.T) {
	c := start(t)
	conn, from := dialRaw(t, c)
	for _, request := range []string{
		"POST http://router/v1/chat/completions HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n%s",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=1\r\nCookie: b=2\r\nContent-Length: %d\r\n\r\n%s",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%s",
	} {
		_, _ = fmt.Fprintf(conn, request, len(chatBody), chatBody) // a failure shows when reading
		wantStatus(t, from, http.StatusOK)
	}
}
