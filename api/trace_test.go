package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	var inner trace.SpanContext
	e := newEdge(t, fleet(t, []string{"llama"}, "http://127.0.0.1:1"), func(_ *Config, d *Deps) {
		d.Tracing, d.Tracer, d.Propagator = true, provider.Tracer("test"), propagation.TraceContext{}
		d.Proxy = scripted(func(ctx context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
			inner = trace.SpanContextFromContext(ctx)
			_ = a.Begin(&proxy.Reply{Status: 200, Lease: lease(r)})
			a.End(nil, nil)
			return proxy.Result{
				Status: 200, Endpoint: "llama", Variant: "blue", Backend: "server-a", Decision: routing.DecisionHome, Attempts: 1,
				Usage: proxy.Usage{Known: true, Prompt: 100, Cached: 64, Completion: 7},
			}, nil
		})
	})
	const id = "0af7651916cd43dd8448eb211c80319c"
	e.do(t, "POST", chatRoute, systemChat, "Traceparent", "00-"+id+"-b7ad6b7169203331-01")
	e.do(t, "POST", chatRoute, "{")
	e.record(t)
	e.record(t)
	if inner.TraceID().String() != id {
		t.Errorf("the proxy saw trace %s", inner.TraceID())
	}
	got := map[string]map[string]string{}
	failed := 0
	for _, s := range recorder.Ended() {
		if s.SpanContext().TraceID().String() != id {
			failed++
			continue
		}
		attrs := map[string]string{}
		for _, a := range s.Attributes() {
			attrs[string(a.Key)] = a.Value.String()
		}
		got[s.Name()] = attrs
	}
	for span, want := range map[string]string{
		"chat_completions": "http.response.status_code=200 warmring.backend=server-a warmring.decision=home gen_ai.request.model=llama gen_ai.usage.input_tokens=100 gen_ai.usage.output_tokens=7",
		"route":            "warmring.strategy=PREFIX_AWARE warmring.epoch=1.1 warmring.home=server-a warmring.endpoint=llama",
	} {
		for pair := range strings.FieldsSeq(want) {
			key, value, _ := strings.Cut(pair, "=")
			if got[span][key] != value {
				t.Errorf("%s: %s is %q, want %q", span, key, got[span][key], value)
			}
		}
	}
	if failed != 2 {
		t.Errorf("%d spans of the bad request, want 2", failed)
	}
}

func TestAccessLog(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 1: 1} {
		e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), func(c *Config, _ *Deps) { c.AccessLog = share })
		e.do(t, "POST", chatRoute, hello, "Authorization", "Bearer secret-key", "X-Request-Id", "r-1")
		e.record(t)
		log := e.log.String()
		if got := strings.Count(log, "msg=request"); got != want {
			t.Errorf("at %v: %d lines: %s", share, got, log)
		}
		if strings.Contains(log, "hello") || strings.Contains(log, "secret") {
			t.Errorf("the log tells too much: %s", log)
		}
		if want > 0 && !strings.Contains(log, "request_id=r-1 route=chat_completions") {
			t.Errorf("the log tells too little: %s", log)
		}
	}
}

// What the edge itself costs, without a connection and without a proxy.
func BenchmarkEdge(b *testing.B) {
	answers := scripted(func(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
		err := a.Begin(&proxy.Reply{Status: 200, Lease: &routing.Lease{Epoch: r.Place.Epoch()}})
		_, _ = a.Write([]byte("{}"))
		a.End(nil, nil)
		return proxy.Result{Status: 200}, err
	})
	for _, size := range []int{100, 4 << 10, 200 << 10} {
		e := newEdge(b, fleet(b, []string{"llama"}, "http://127.0.0.1:1"), func(_ *Config, d *Deps) { d.Proxy, d.Observer = answers, nil })
		body := strings.Replace(systemChat, "hello", pad(size), 1)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			in := strings.NewReader("")
			r := httptest.NewRequest(http.MethodPost, chatRoute, in)
			r.Header.Set("X-Request-Id", "mine")
			r.ContentLength = int64(len(body))
			w := &sink{h: http.Header{}}
			for b.Loop() {
				in.Reset(body)
				clear(w.h)
				e.api.ServeHTTP(w, r)
			}
		})
	}
}

type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) Flush()                      {}

func (*sink) SetReadDeadline(time.Time) error  { return nil }
func (*sink) SetWriteDeadline(time.Time) error { return nil }
