package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmring/warmring/test/load"
)

// TestBenchAdvises: each error of a first request says what to do.
func TestBenchAdvises(t *testing.T) {
	for _, tc := range []struct {
		status int
		args   string
		says   string
	}{
		{401, "--model m", "answered 401 Unauthorized: no\nThe API key is missing or wrong: --api-key-env"},
		{404, "--model m", "answered 404 Not Found: no\n--url must be the base URL"},
		{404, "", "it lists no models (answered 404 Not Found: no)\nName a model with --model. If that"},
		{429, "--model m", "answered 429 Too Many Requests: no\nThe servers are busy"},
		{400, "--model m", "answered 400 Bad Request: no\nIt must take streamed chats"},
		{304, "--model m", "answered 304 Not Modified: \nIf it redirects"},
		{500, "", "answered 500 Internal Server Error: no\nThe server's log"},
		{200, "--model m", "chat completions: it answered with"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
		}))
		code, _, errOut := cli(t, "", append([]string{"bench", "--url", server.URL}, strings.Fields(tc.args)...)...)
		server.Close()
		if code != exitFailed || !strings.Contains(errOut, tc.says) {
			t.Errorf("%d: exit code %d, want %q in %s", tc.status, code, tc.says, errOut)
		}
	}
	for kind, says := range map[error]string{load.ErrTLS: "begins with http://", load.ErrEvent: "The server's log may say why"} {
		if err := benchAdvice(fmt.Errorf("http://h: %w", kind)); !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
	silent := fmt.Errorf("http://h: %w within 30s", load.ErrSilent)
	if err := benchAdvice(silent); !strings.Contains(err.Error(), "takes connections and does not answer") {
		t.Error(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := execute(stopped, []string{"bench", "--url", "http://127.0.0.1:9"}, strings.NewReader(""), &out, &errOut); code != exitFailed || errOut.String() != "warmring: stopped before the first run\n" {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}
