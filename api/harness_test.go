package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// edge is an API on a real listener, in front of model servers.
type edge struct {
	api    *API
	picker *routing.Picker
	url    string
	addr   string
	log    *lockedBuffer

	mu      sync.Mutex
	records []Record
	arrived chan struct{} // a record each
}

func (e *edge) Observe(_ context.Context, r *Record) {
	e.mu.Lock()
	e.records = append(e.records, *r)
	e.mu.Unlock()
	e.arrived <- struct{}{}
}

// record waits for the next request to be over.
func (e *edge) record(t *testing.T) Record {
	t.Helper()
	select {
	case <-e.arrived:
	case <-time.After(10 * time.Second):
		t.Fatal("no request was recorded")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.records[len(e.records)-1]
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fleet is an epoch with an endpoint for each of names; each URL is a backend
// of the first.
func fleet(t testing.TB, names []string, urls ...string) *routing.Epoch {
	t.Helper()
	var c routing.Change
	for _, name := range names {
		ep := routing.Endpoint{
			Name: name, Aliases: []string{name + "-alias"}, Adapters: []string{name + "-lora"},
			Variants: []routing.Variant{{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}}},
		}
		c.PutEndpoints = append(c.PutEndpoints, ep)
	}
	for i, u := range urls {
		c.PutBackends = append(c.PutBackends, routing.Backend{
			ID: "server-" + string(rune('a'+i)), URL: u, Endpoint: names[0], Variant: "blue", Weight: 1, State: routing.Active,
		})
	}
	e, err := routing.NewEpoch(1, 42).Apply(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newEdge serves epoch; change may alter what New is given.
func newEdge(t testing.TB, epoch *routing.Epoch, change func(*Config, *Deps)) *edge {
	t.Helper()
	e := &edge{picker: routing.NewPicker(routing.PickerConfig{}), log: &lockedBuffer{}, arrived: make(chan struct{}, 1000)}
	e.picker.SetEpoch(epoch)
	log := slog.New(slog.NewTextHandler(e.log, nil))
	pcfg := proxy.Default()
	pcfg.Queue.Length = 0
	p := proxy.New(pcfg, proxy.Deps{Picker: e.picker, Dial: new(net.Dialer).DialContext, Log: log})
	t.Cleanup(p.Close)
	cfg, deps := Default(), Deps{Epoch: e.picker.Epoch, Proxy: p, Observer: e, Log: log, RouterName: "r1"}
	if change != nil {
		change(&cfg, &deps)
	}
	var err error
	if e.api, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := e.api.Server(e.api)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	e.addr = l.Addr().String()
	e.url = "http://" + e.addr
	return e
}

// modelServer is a backend with the given handler.
func modelServer(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// echo answers with the path and the body it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Path", r.URL.RequestURI())
	body, _ := io.ReadAll(r.Body) // whole, since a net/http server stops reading when it writes
	_, _ = w.Write(body)
}

type answered struct {
	*http.Response
	body string
}

func (e *edge) do(t testing.TB, method, path, body string, headers ...string) answered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res, string(text)}
}

const hello = `{"model":"llama","messages":[{"role":"user","content":"hello"}]}`

// scripted is a Proxy that does as it is told.
type scripted func(ctx context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error)

func (s scripted) Serve(ctx context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
	return s(ctx, r, a)
}

func withProxy(s scripted) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) { d.Proxy = s }
}

// lease is what a scripted proxy gives to Begin.
func lease(r *proxy.Request) *routing.Lease {
	return &routing.Lease{Backend: routing.Backend{ID: "server-a"}, Epoch: r.Place.Epoch(), Home: "server-a", Decision: routing.DecisionHome}
}

// recordAuth notes the credentials that reach a model server.
func recordAuth(seen *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*seen = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		echo(w, r)
	}
}
