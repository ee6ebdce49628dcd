package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// What the proxy can say, in both dialects.
func TestProxyErrors(t *testing.T) {
	upstream := func(k proxy.Kind) error {
		return &proxy.UpstreamError{Kind: k, Backend: "server-a", Err: errors.New("dial 10.0.0.1:1")}
	}
	for _, c := range []struct {
		err              error
		status           int
		kind, code       string
		awsStatus        int
		awsType, retries string
	}{
		{proxy.ErrQueueFull, 429, "rate_limit_error", "overloaded", 503, "ServiceUnavailable", "1"},
		{proxy.ErrQueueTimeout, 429, "rate_limit_error", "overloaded", 503, "ServiceUnavailable", "1"},
		{routing.ErrNoBackend, 503, "server_error", "no_backend", 503, "ServiceUnavailable", "1"},
		{upstream(proxy.Refused), 502, "server_error", "upstream_unreachable", 424, "ModelError", ""},
		{upstream(proxy.Reset), 502, "server_error", "upstream_unreachable", 424, "ModelError", ""},
		{upstream(proxy.Protocol), 502, "server_error", "upstream_unreachable", 424, "ModelError", ""},
		{upstream(proxy.Timeout), 504, "server_error", "upstream_timeout", 424, "ModelError", ""},
		{fmt.Errorf("%w: %w", proxy.ErrBody, errTooLarge), 413, "invalid_request_error", "request_too_large", 400, "ValidationError", ""},
		{fmt.Errorf("%w: %w", proxy.ErrBody, errBodyTimeout), 408, "invalid_request_error", "request_timeout", 408, "ValidationError", ""},
		{errors.New("a bug"), 500, "server_error", "internal_error", 500, "InternalFailure", ""},
	} {
		e := newEdge(t, fleet(t, []string{"llama"}), withProxy(func(context.Context, *proxy.Request, proxy.Answer) (proxy.Result, error) {
			return proxy.Result{Endpoint: "llama"}, c.err
		}))
		res := e.do(t, "POST", "/v1/chat/completions", hello)
		var body envelope
		if err := json.Unmarshal([]byte(res.body), &body); err != nil {
			t.Fatalf("%v: %v in %s", c.err, err, res.body)
		}
		if res.StatusCode != c.status || body.Error.Type != c.kind || body.Error.Code != c.code || body.Error.Message == "" || res.Header.Get("Retry-After") != c.retries {
			t.Errorf("%v: %d %v %s", c.err, res.StatusCode, res.Header, res.body)
		}
		if strings.Contains(res.body, "10.0.0.1") || strings.Contains(res.body, "a bug") {
			t.Errorf("%v: too much got out: %s", c.err, res.body)
		}
		if rec := e.record(t); rec.Code != c.code || rec.Status != c.status || !errors.Is(rec.Err, c.err) || rec.Route != "chat_completions" || rec.Endpoint != "llama" {
			t.Errorf("%v: recorded %+v", c.err, rec)
		}
		res = e.do(t, "POST", "/endpoints/llama/invocations", hello)
		if res.StatusCode != c.awsStatus || res.Header.Get("X-Amzn-ErrorType") != c.awsType || res.Header.Get("X-Amzn-RequestId") == "" || !strings.Contains(res.body, `"Message"`) {
			t.Errorf("%v: %d %v %s", c.err, res.StatusCode, res.Header, res.body)
		}
	}
}

// What the edge itself refuses.
func TestRequestErrors(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama", "other"}, modelServer(t, echo)), nil)
	chat := "/v1/chat/completions"
	for _, c := range []struct {
		path, body string
		headers    []string
		status     int
		want       string // in the body
	}{
		{chat, strings.Replace(hello, "llama", "nobody", 1), nil, 404, `{"error":{"message":"unknown model: \"nobody\"","type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
		{chat, `{"messages":[]}`, nil, 400, "several endpoints"},
		{chat, `{"model":"llama","messages":"x"}`, nil, 400, `"param":"messages"`},
		{chat, hello, []string{"X-Amzn-SageMaker-Prefix-Aware-Id", " "}, 400, "X-Amzn-Sagemaker-Prefix-Aware-Id"},
		{chat, hello, []string{"X-Amzn-SageMaker-Target-Variant", "green"}, 400, `unknown variant: \"green\"`},
		{"/endpoints/nobody/openai/v1/chat/completions", hello, nil, 400, `{"error":{"message":"Endpoint nobody of account 000000000000 not found.","type":"invalid_request_error","param":null,"code":"validation_error"}}`},
		{"/endpoints/llama/inference-components/x/openai/v1/chat/completions", hello, nil, 400, "no such inference component: x"},
		{"/endpoints/llama/inference-components/other-lora/openai/v1/chat/completions", hello, nil, 400, "no such inference component"},
		{"/endpoints/llama/inference-components/x/openai/v1/models", "", nil, 405, "method_not_allowed"},
		{"/v1/nonsense", hello, nil, 404, "unknown_url"},
		{"/endpoints/nobody/invocations", hello, nil, 400, `{"Message":"Endpoint nobody of account 000000000000 not found."}`},
		{"/endpoints/-/invocations", hello, nil, 400, "EndpointName"},
		{"/endpoints/llama/invocations", hello, []string{"X-Amzn-SageMaker-Inference-Component", "x"}, 400, "inference component"},
		{"/endpoints/llama/invocations", hello, []string{"X-Amzn-SageMaker-Target-Variant", "green"}, 400, "unknown variant"},
		{"/endpoints/llama/nonsense", hello, nil, 404, "no such route"},
		{"/", "{}", []string{"X-Amz-Target", "SageMaker.ListEndpoints"}, 400, "SageMaker.ListEndpoints"},
	} {
		res := e.do(t, "POST", c.path, c.body, c.headers...)
		if res.StatusCode != c.status || !strings.Contains(res.body, c.want) || !json.Valid([]byte(res.body)) {
			t.Errorf("%s %v: %d %s", c.path, c.headers, res.StatusCode, res.body)
		}
	}
	if res := e.do(t, "POST", "/", "{}", "X-Amz-Target", "SageMaker.ListEndpoints"); res.Header.Get("X-Amzn-ErrorType") != "UnknownOperationException" {
		t.Errorf("control plane: %v", res.Header)
	}
}

func TestNoEndpoints(t *testing.T) {
	e := newEdge(t, routing.NewEpoch(1, 1), nil)
	if res := e.do(t, "POST", "/v1/chat/completions", hello); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "no_endpoint") {
		t.Errorf("got %d %s", res.StatusCode, res.body)
	}
	e = newEdge(t, fleet(t, []string{"llama"}), nil)
	if res := e.do(t, "POST", "/v1/chat/completions", hello); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "no_backend") {
		t.Errorf("got %d %s", res.StatusCode, res.body)
	}
	if res := e.do(t, "GET", "/readyz", ""); res.StatusCode != http.StatusOK {
		t.Errorf("ready: %d", res.StatusCode)
	}
}

func TestNotReady(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}), func(_ *Config, d *Deps) {
		d.Ready = func() error { return errors.New("leaving") }
	})
	if res := e.do(t, "GET", "/readyz", ""); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "leaving") {
		t.Errorf("got %d %s", res.StatusCode, res.body)
	}
}

// Each row of the table must be reachable: an error that fits it fits no row
// before it. No understood condition is a 500.
func TestTable(t *testing.T) {
	a := &API{table: conditions()}
	samples := []error{
		proxy.ErrClientGone, errTooLarge, errBodyTimeout, errBodyFraming, proxy.ErrTarget, errEncoding, &openai.FieldError{}, &sagemaker.ValidationError{},
		errModelNeeded, errInURL, routing.ErrUnknownModel, routing.ErrUnknownEndpoint, routing.ErrUnknownVariant, errComponent, errKey, errRoute,
		errOperation, errMethod, routing.ErrSaturated, errBuffers, routing.ErrNoBackend, routing.ErrNoEndpoint, errNotReady,
		&proxy.UpstreamError{Kind: proxy.Timeout}, &proxy.UpstreamError{Kind: proxy.Reset}, errPanic,
	}
	if len(samples) != len(a.table) {
		t.Fatalf("%d samples for %d rows", len(samples), len(a.table))
	}
	for i, err := range samples {
		row := a.lookup(fmt.Errorf("wrapped: %w", err))
		if row != &a.table[i] {
			t.Errorf("%v fits the row of %s, not its own", err, row.openai.code)
		}
		if isBug := i == len(samples)-1; (row.openai.status == 500) != isBug || (row.aws.status == 500) != isBug {
			t.Errorf("%v is a 500", err)
		}
		if row.openai.code == "" || row.aws.code == "" {
			t.Errorf("%v has no code", err)
		}
	}
}

// A bug costs its own request, and no more.
func TestPanic(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}), withProxy(func(context.Context, *proxy.Request, proxy.Answer) (proxy.Result, error) {
		panic("a bug")
	}))
	for _, c := range []struct{ path, want string }{
		{"/v1/chat/completions", "internal_error"},
		{"/endpoints/llama/invocations", "Message"},
	} {
		if res := e.do(t, "POST", c.path, hello); res.StatusCode != http.StatusInternalServerError || !strings.Contains(res.body, c.want) || strings.Contains(res.body, "a bug") {
			t.Errorf("%s: %d %s", c.path, res.StatusCode, res.body)
		}
		if rec := e.record(t); rec.Code == "" || rec.Status != 500 {
			t.Errorf("%s: recorded %+v", c.path, rec)
		}
	}
	if !strings.Contains(e.log.String(), "a bug") {
		t.Error("the panic was not logged")
	}
}

// A client that went away is told nothing, not even that all is well.
func TestClientGone(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}), withProxy(func(context.Context, *proxy.Request, proxy.Answer) (proxy.Result, error) {
		return proxy.Result{}, proxy.ErrClientGone
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/v1/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		t.Errorf("got %d %s", res.StatusCode, text)
	}
	if rec := e.record(t); rec.Status != 499 || rec.Code != "client_gone" {
		t.Errorf("recorded %+v", rec)
	}
}

// A client that leaves in the middle of its body has not framed it wrongly, as
// it looks over HTTP/2.
func TestClientGoneInBody(t *testing.T) {
	began := make(chan struct{}, 1)
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), func(_ *Config, d *Deps) {
		d.Counts = func(uint64) bool { began <- struct{}{}; return true }
	})
	for _, lost := range []bool{false, true} { // the connection, or the request alone
		var nc net.Conn
		transport := speaking(true)
		transport.DialContext = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			nc, err = new(net.Dialer).DialContext(ctx, network, addr)
			return nc, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		body, begin := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-began
			if lost {
				_ = nc.Close()
			}
			cancel()
		}()
		if res, err := transport.RoundTrip(req); err == nil {
			_ = res.Body.Close()
			t.Errorf("got %d", res.StatusCode)
		}
		if rec := e.record(t); rec.Status != 499 || rec.Code != "client_gone" {
			t.Errorf("connection lost %v: recorded %+v", lost, rec)
		}
		_ = begin.Close()
		transport.CloseIdleConnections()
	}
}

// A bug after the answer began: the stream says so, anything else is aborted.
func TestPanicInAnswer(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}), withProxy(func(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
		_ = a.Begin(&proxy.Reply{Status: 200, Lease: lease(r)})
		_, _ = a.Write([]byte("begun"))
		panic("a bug")
	}))
	for _, c := range []struct{ path, want string }{
		{"/v1/chat/completions", "begun"},
		{"/endpoints/llama/invocations", "begun"},
		{"/endpoints/llama/invocations-response-stream", "InternalStreamFailure"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+c.path, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %q, %v", c.path, text, err)
		}
		if rec := e.record(t); rec.Code != "internal_error" && rec.Code != "InternalFailure" || rec.Status != 200 {
			t.Errorf("%s: recorded %+v", c.path, rec)
		}
	}
}

// A router that has not heard of any epoch must not say that a model is unknown.
func TestNoEpoch(t *testing.T) {
	e := newEdge(t, routing.NewEpoch(0, 0), nil)
	for _, path := range []string{"/v1/chat/completions", "/endpoints/llama/invocations"} {
		if res := e.do(t, "POST", path, hello); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(res.body, "no epoch") {
			t.Errorf("%s: got %d %s", path, res.StatusCode, res.body)
		}
	}
	if res := e.do(t, "GET", "/v1/models", ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("models: got %d %s", res.StatusCode, res.body)
	}
}
