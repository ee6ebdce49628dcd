package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func getenv(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestPlanExport(t *testing.T) {
	otlp := Default()
	otlp.Traces.Exporter, otlp.Traces.Endpoint, otlp.Traces.Protocol = "otlp", "http://c:4318", "http/protobuf"
	otlp.Metrics.Exporter, otlp.Metrics.Endpoint, otlp.Metrics.Protocol = "otlp", "https://c/own/path", "http/protobuf"
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, tc := range map[string]struct {
		cfg  Config
		env  []string
		want exportPlan
	}{
		"nothing":       {cfg: Default()},
		"file":          {cfg: otlp, want: exportPlan{signal{true, true, "http://c:4318/v1/traces"}, signal{true, true, "https://c/own/path"}}},
		"environment":   {cfg: Default(), env: []string{endpoint, "http://e:4317"}, want: exportPlan{traces: signal{on: true}}},
		"variable wins": {cfg: otlp, env: []string{"OTEL_TRACES_EXPORTER", "none", endpoint, "http://e", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"}, want: exportPlan{traces: signal{http: true}, metrics: signal{on: true}}},
		"disabled":      {cfg: otlp, env: []string{"OTEL_SDK_DISABLED", "true"}, want: exportPlan{signal{false, true, "http://c:4318/v1/traces"}, signal{false, true, "https://c/own/path"}}},
	} {
		got, err := planExport(tc.cfg, getenv(tc.env...))
		if err != nil || got != tc.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, tc.want)
		}
	}
	for _, env := range [][]string{{"OTEL_TRACES_EXPORTER", "zipkin"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}} {
		if _, err := planExport(Default(), getenv(env...)); err == nil {
			t.Errorf("%v is accepted", env)
		}
	}
}

func TestValidateReportsEverything(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("Default is not valid: %v", err)
	}
	c := Config{Log: LogConfig{"loud", "xml"}, Traces: TracesConfig{"zipkin", "udp", "bob:secret@here", 2}}
	want := `telemetry.log.level: "loud" is not one of debug, info, warn, error
telemetry.log.format: "xml" is not one of text, json
telemetry.traces.exporter: "zipkin" is not one of none, otlp, or empty
telemetry.traces.protocol: "udp" is not one of grpc, http/protobuf, or empty
telemetry.traces.endpoint: "...@here" is not a URL such as http://collector:4317
telemetry.traces.sample: 2 is not between 0 and 1
telemetry.metrics.interval: 0s is under 1s
telemetry.flush_timeout: 0s is not positive`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestLogRecordsCarryTheSpan(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(LogConfig{"info", "json"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	log.With("router", "r").InfoContext(trace.ContextWithSpanContext(t.Context(), sc), "hello")
	log.DebugContext(t.Context(), "not at this level")
	log.InfoContext(t.Context(), "no span")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	if got["trace_id"] != sc.TraceID().String() || got["span_id"] != sc.SpanID().String() || got["router"] != "r" {
		t.Errorf("record is %v", got)
	}
	if strings.Contains(lines[1], "trace_id") {
		t.Errorf("a trace where there is none: %s", lines[1])
	}
}

func TestPropagatorReadsB3AndWritesW3C(t *testing.T) {
	const id = "0102030405060708090a0b0c0d0e0f10"
	for name, header := range map[string]http.Header{
		"w3c":       {"Traceparent": {"00-" + id + "-0102030405060708-01"}, "B3": {strings.Repeat("f", 32) + "-0102030405060708-1"}},
		"b3 single": {"B3": {id + "-0102030405060708-1"}},
		"b3 multi":  {"X-B3-Traceid": {id}, "X-B3-Spanid": {"0102030405060708"}, "X-B3-Sampled": {"1"}},
	} {
		ctx := newPropagator().Extract(t.Context(), propagation.HeaderCarrier(header))
		if got := trace.SpanContextFromContext(ctx); got.TraceID().String() != id || !got.IsSampled() {
			t.Errorf("%s: extracted %v, sampled %v", name, got.TraceID(), got.IsSampled())
		}
		out := http.Header{}
		newPropagator().Inject(ctx, propagation.HeaderCarrier(out))
		if out.Get("Traceparent") == "" || out.Get("B3") != "" {
			t.Errorf("%s: injected %v", name, out)
		}
	}
}

// collector counts the exports that arrive at each path.
type collector struct {
	mu   sync.Mutex // guards seen
	seen map[string]int
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r.URL.Path]++
}

func TestShutdownFlushesSpansAndMetrics(t *testing.T) {
	c := &collector{seen: map[string]int{}}
	srv := httptest.NewServer(c)
	defer srv.Close()
	cfg := Default()
	cfg.Traces.Exporter, cfg.Traces.Protocol, cfg.Traces.Endpoint = "otlp", "http/protobuf", srv.URL
	cfg.Metrics.Exporter, cfg.Metrics.Protocol, cfg.Metrics.Endpoint = "otlp", "http/protobuf", srv.URL
	tel, err := New(cfg, Options{Node: "n", Version: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	if !tel.Tracing() {
		t.Error("tracing is off")
	}
	if err := tel.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, span := tel.Tracer().Start(t.Context(), "request")
	span.End()
	if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if c.seen["/v1/traces"] != 1 || c.seen["/v1/metrics"] != 1 {
		t.Errorf("exports: %v, want one of each", c.seen)
	}
}

func TestWithoutExporterNothingIsTraced(t *testing.T) {
	tel, err := New(Default(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if tel.Tracing() {
		t.Error("tracing is on")
	}
	if _, span := tel.Tracer().Start(t.Context(), "x"); span.IsRecording() {
		t.Error("a span records")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkUnsampledSpan is what a request pays for tracing when its trace is not kept.
func BenchmarkUnsampledSpan(b *testing.B) {
	cfg := Default()
	cfg.Traces.Exporter, cfg.Traces.Sample = "otlp", 0
	tel, err := New(cfg, Options{})
	if err != nil {
		b.Fatal(err)
	}
	tracer := tel.Tracer()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, span := tracer.Start(ctx, "request")
		span.End()
	}
}
