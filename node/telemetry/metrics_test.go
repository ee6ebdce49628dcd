package telemetry

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// fleetOf is an epoch with one endpoint, demo, and these backends.
func fleetOf(t testing.TB, ids ...string) *routing.Epoch {
	t.Helper()
	change := routing.Change{PutEndpoints: []routing.Endpoint{{
		Name:     "demo",
		Variants: []routing.Variant{{Name: "main", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}}},
	}}}
	for i, id := range ids {
		change.PutBackends = append(change.PutBackends, routing.Backend{
			ID: id, URL: "http://127.0.0.1:" + string(rune('1'+i)) + "000", Endpoint: "demo", Variant: "main", Weight: 1, State: routing.Active,
		})
	}
	e, err := routing.NewEpoch(1, 7).Apply(change)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newTestMetrics(t testing.TB) *Metrics {
	t.Helper()
	m, err := newMetrics("v0")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func served(backend string) *api.Record {
	return &api.Record{
		Route: "chat_completions", Dialect: api.OpenAI, Status: 200,
		Result: proxy.Result{
			Endpoint: "demo", Variant: "main", Backend: backend, Decision: routing.DecisionHome, Attempts: 1, Status: 200, Stream: true,
			Usage:     proxy.Usage{Known: true, Prompt: 1000, Cached: 900, HasCached: true, Completion: 11},
			FirstByte: 200 * time.Millisecond, Overhead: 40 * time.Microsecond, Total: 1200 * time.Millisecond, BytesIn: 4000, BytesOut: 700,
		},
	}
}

// scrape is the text of /metrics.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("/metrics answered %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func mustContain(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l+"\n") {
			t.Errorf("metrics lack %q", l)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestObserveCountsARequest(t *testing.T) {
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0"))
	m.Observe(t.Context(), served("gpu-0"))
	m.Observe(t.Context(), served("gpu-0"))
	const place = `backend="gpu-0",endpoint="demo",variant="main"`
	mustContain(t, scrape(t, m),
		`warmring_requests_total{backend="gpu-0",code="200",endpoint="demo",route="chat_completions",variant="main"} 2`,
		`warmring_decisions_total{decision="home",endpoint="demo",variant="main"} 2`,
		`warmring_upstream_attempts_total{endpoint="demo"} 2`,
		`warmring_prompt_tokens_total{`+place+`} 2000`,
		`warmring_cached_tokens_total{`+place+`} 1800`,
		`warmring_completion_tokens_total{`+place+`} 22`,
		`warmring_time_to_first_token_seconds_sum{`+place+`} 0.4`,
		`warmring_time_to_first_token_seconds_bucket{`+place+`,le="0.1"} 0`,
		`warmring_time_per_output_token_seconds_count{`+place+`} 2`,
		`warmring_time_per_output_token_seconds_bucket{`+place+`,le="0.1"} 2`,
		`warmring_time_per_output_token_seconds_bucket{`+place+`,le="0.075"} 0`,
		`warmring_overhead_seconds_bucket{endpoint="demo",le="2.5e-05"} 0`,
		`warmring_overhead_seconds_bucket{endpoint="demo",le="5e-05"} 2`,
		`warmring_bytes_total{direction="in"} 8000`,
		`warmring_bytes_total{direction="out"} 1400`,
	)
}

func TestObserveNamesWhatFailed(t *testing.T) {
	upstream := &proxy.UpstreamError{Kind: proxy.Refused, Backend: "gpu-0", Err: errors.New("no")}
	for class, r := range map[string]api.Record{
		"":                {Status: 200},
		"client_gone":     {Status: 499, Err: proxy.ErrClientGone},
		"saturated":       {Status: 429, Err: proxy.ErrQueueFull},
		"no_backend":      {Status: 503, Err: routing.ErrNoBackend},
		"request_body":    {Status: 400, Err: proxy.ErrBody},
		"backend_refused": {Status: 502, Err: upstream},
		"broken_stream":   {Status: 200, Result: proxy.Result{Broken: errors.New("reset")}},
		"status_5xx":      {Status: 500},
		"status_4xx":      {Status: 404},
	} {
		if got := errorClass(&r); got != class {
			t.Errorf("class of %+v is %q, want %q", r, got, class)
		}
	}
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0"))
	r := served("gpu-0")
	r.Status, r.Err, r.Stream = 502, upstream, false
	m.Observe(t.Context(), r)
	mustContain(t, scrape(t, m), `warmring_request_errors_total{class="backend_refused",endpoint="demo"} 1`)
}

func TestSeriesOfWhatLeftVanish(t *testing.T) {
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0", "gpu-1"))
	m.Observe(t.Context(), served("gpu-0"))
	m.Observe(t.Context(), served("gpu-1"))
	m.SetFleet(fleetOf(t, "gpu-0", "gpu-1")) // nothing left: nothing may be lost, and nothing forgotten
	m.SetFleet(fleetOf(t, "gpu-1"))
	m.Observe(t.Context(), served("gpu-0")) // it was still running when its backend was removed
	text := scrape(t, m)
	if strings.Contains(text, `"gpu-0"`) {
		t.Errorf("series of a removed backend are there:\n%s", text)
	}
	mustContain(t, text,
		`warmring_requests_total{backend="gpu-1",code="200",endpoint="demo",route="chat_completions",variant="main"} 1`,
		`warmring_requests_total{backend="removed",code="200",endpoint="demo",route="chat_completions",variant="main"} 1`,
		`warmring_decisions_total{decision="home",endpoint="demo",variant="main"} 3`)
	m.SetFleet(routing.NewEpoch(1, 7)) // number 0: older, to be ignored
	mustContain(t, scrape(t, m), `warmring_upstream_attempts_total{endpoint="demo"} 3`)
	m.SetFleet(routing.NewEpoch(2, 7))
	if text := scrape(t, m); strings.Contains(text, `"demo"`) {
		t.Errorf("series of a removed endpoint are there:\n%s", text)
	}
}

func TestLabelsComeFromClosedSets(t *testing.T) {
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0"))
	for i := range 1000 {
		r := served("gpu-0")
		r.Status = 200 + i%700
		r.Endpoint = "unheard-of-" + string(rune('a'+i%26))
		m.Observe(t.Context(), r)
	}
	if n := len(m.series); n > 100 {
		t.Errorf("%d series for one backend", n)
	}
	if strings.Contains(scrape(t, m), "unheard-of") {
		t.Error("a name that is not of the fleet is a label")
	}
}

func TestFleetGauges(t *testing.T) {
	m := newTestMetrics(t)
	e := fleetOf(t, "gpu-0", "gpu-1")
	picker := routing.NewPicker(routing.PickerConfig{})
	picker.SetEpoch(e)
	if err := m.Watch(picker, func() int { return 3 }, time.Now); err != nil {
		t.Fatal(err)
	}
	place, err := e.Map(&routing.Request{Endpoint: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := picker.Pick(&place, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := lease.Backend.ID
	mustContain(t, scrape(t, m),
		`warmring_inflight{backend="`+id+`",endpoint="demo",variant="main"} 1`,
		`warmring_ejected{backend="gpu-0",endpoint="demo",variant="main"} 0`,
		`warmring_epoch_generation 1`, `warmring_epoch_number 1`, `warmring_queue_length 3`)
	lease.Report(routing.Refused, time.Now())
	lease.Release()
	mustContain(t, scrape(t, m),
		`warmring_inflight{backend="`+id+`",endpoint="demo",variant="main"} 0`,
		`warmring_ejected{backend="`+id+`",endpoint="demo",variant="main"} 1`)
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0"))
	r := served("gpu-0")
	if n := testing.AllocsPerRun(100, func() { m.Observe(t.Context(), r) }); n != 0 {
		t.Errorf("%v allocations a request, want none", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := newTestMetrics(b)
	m.SetFleet(fleetOf(b, "gpu-0"))
	r := served("gpu-0")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(ctx, r)
	}
}
