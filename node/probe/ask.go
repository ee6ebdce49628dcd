package probe

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
)

const (
	maxBody   = 1 << 20 // of an answer; what comes after is not read
	maxHeader = 64 << 10
)

// state is what one answer says about a backend.
type state uint8

const (
	failing state = iota
	busy          // it asks for less: that is load, not health
	up
	unknown // it does not have what it was asked for
)

type answer struct {
	state state
	body  string
	cause string // of anything but up
}

// newClient has at most one idle connection to a backend; with once it has none, also when a dial outlives its request.
func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error), once bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dial, MaxIdleConnsPerHost: 1, DisableKeepAlives: once, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// paths are what a kind asks for, the first that the backend knows.
func (k Kind) paths() []string {
	switch k {
	case Health:
		return []string{"/health"}
	case Ping:
		return []string{"/ping"}
	case Models:
		return []string{"/v1/models"}
	default:
		return []string{"/health", "/ping", "/v1/models"}
	}
}

// ask finds out whether the backend lives.
func (w *watch) ask(ctx context.Context, t *Target) answer {
	paths := w.cfg.Kind.paths()
	if w.path != "" {
		paths = []string{w.path}
	}
	var a answer
	for _, path := range paths {
		if a = w.get(ctx, t, path); a.state != unknown {
			w.path = path
			return a
		}
	}
	a.state = failing
	return a
}

// get makes one request.
func (w *watch) get(ctx context.Context, t *Target, path string) answer {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	url := t.URL + path
	req, err := w.deps.question(ctx, url, t.Endpoint)
	if err != nil {
		return answer{state: failing, cause: err.Error()}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return answer{state: failing, cause: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is wanted from it
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return answer{state: failing, cause: err.Error()}
	}
	return answer{state: classify(resp), body: string(body), cause: url + " answers " + resp.Status}
}

// classify sorts answers by status. One that asks for credentials comes from a server that lives. A 503 without
// Retry-After is how vLLM's /health says that its engine died.
func classify(resp *http.Response) state {
	switch s := resp.StatusCode; {
	case s >= 200 && s < 300, s == http.StatusUnauthorized, s == http.StatusForbidden:
		return up
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		return busy
	case s == http.StatusNotFound, s == http.StatusMethodNotAllowed, s == http.StatusNotImplemented:
		return unknown
	}
	return failing
}

// missing says why the backend cannot serve the wanted models, or nothing. One that has no list, or one that cannot be
// read, is believed to have them.
func (w *watch) missing(ctx context.Context, t *Target, a answer) string {
	if len(t.Models) == 0 || w.cfg.Kind == Health || w.cfg.Kind == Ping {
		return ""
	}
	if w.path != "/v1/models" {
		a = w.get(ctx, t, "/v1/models")
	}
	switch a.state {
	case failing, busy:
		return a.cause
	case unknown:
		return ""
	case up:
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal([]byte(a.body), &list) != nil || list.Data == nil {
		return ""
	}
	for _, model := range list.Data {
		if slices.Contains(t.Models, model.ID) {
			return ""
		}
	}
	return "it does not list the endpoint's model"
}
