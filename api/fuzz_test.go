package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/warmring/warmring/routing/proxy"
)

// Any bytes as a body, on each route, whole or in pieces: never a panic, never
// a 500, and the backend gets them unchanged if it gets them.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		hello, systemChat, "", "{", "[", "null", `{"model":3}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
		`{"prompt":[1,2,3]}`, `{"input":["a","b"]}`, `{"query":"a","documents":["b"]}`, "{\"model\":\"\\ud800\"}", "\xff\xfe", `{"model":"llama","model":"other"}`,
	} {
		for route := range byte(9) {
			f.Add(route, []byte(seed), false)
		}
		f.Add(byte(0), []byte(seed), true)
	}
	paths := []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/messages",
		"/endpoints/llama/invocations", "/endpoints/llama/invocations-response-stream",
	}
	var got bytes.Buffer
	e := fleet(f, []string{"llama"}, "http://127.0.0.1:1")
	picker := newEdge(f, e, nil).picker
	cfg := Default()
	cfg.Limits.ScanWindow = 4 * KiB
	a, err := New(cfg, Deps{
		Epoch: picker.Epoch, Log: slog.New(slog.DiscardHandler),
		Proxy: scripted(func(_ context.Context, r *proxy.Request, answer proxy.Answer) (proxy.Result, error) {
			got.Reset()
			got.Write(r.Body.Head)
			if r.Body.Rest != nil {
				if _, err := got.ReadFrom(r.Body.Rest); err != nil {
					return proxy.Result{}, err
				}
			}
			err := answer.Begin(&proxy.Reply{Status: 200, Lease: lease(r)})
			answer.End(nil, nil)
			return proxy.Result{Status: 200}, err
		}),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, route byte, body []byte, pieces bool) {
		var in io.Reader = bytes.NewReader(body)
		if pieces {
			in = &trickle{string(body), 3}
		}
		w := httptest.NewRecorder()
		got.Reset()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodPost, paths[int(route)%len(paths)], in))
		switch {
		case w.Code >= 500:
			t.Errorf("%d: %s", w.Code, w.Body)
		case w.Code == http.StatusOK && !bytes.Equal(got.Bytes(), body):
			t.Errorf("the body changed: %q became %q", body, got.Bytes())
		}
	})
}
