package sagemaker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	"github.com/aws/smithy-go"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

const body = `{"messages":[{"role":"user","content":"hello"}]}`

// router serves endpoint "llama", variant "blue", in front of a model server,
// and returns its URL. With a nil server there is no backend.
func router(t *testing.T, server http.HandlerFunc) string {
	t.Helper()
	c := routing.Change{PutEndpoints: []routing.Endpoint{{
		Name: "llama", Adapters: []string{"fine"},
		Variants: []routing.Variant{{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 1024}}},
	}, {
		Name:     "plain",
		Variants: []routing.Variant{{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.Random}}},
	}}}
	if server != nil {
		s := httptest.NewServer(server)
		t.Cleanup(s.Close)
		c.PutBackends = []routing.Backend{{ID: "a", URL: s.URL, Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active}}
	}
	e, err := routing.NewEpoch(1, 7).Apply(c)
	if err != nil {
		t.Fatal(err)
	}
	picker := routing.NewPicker(routing.PickerConfig{})
	picker.SetEpoch(e)
	log := slog.New(slog.DiscardHandler)
	cfg := proxy.Default()
	cfg.Timeouts.FirstByte, cfg.Timeouts.Idle = 300*time.Millisecond, 300*time.Millisecond
	p := proxy.New(cfg, proxy.Deps{Picker: picker, Dial: new(net.Dialer).DialContext, Log: log})
	t.Cleanup(p.Close)
	a, err := api.New(api.Default(), api.Deps{Epoch: picker.Epoch, Proxy: p, Log: log, RouterName: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(a.Handler())
	t.Cleanup(front.Close)
	return front.URL
}

func client(url string, provider aws.CredentialsProvider) *sagemakerruntime.Client {
	return sagemakerruntime.New(sagemakerruntime.Options{
		BaseEndpoint: aws.String(url), Region: "us-west-2", Credentials: provider, RetryMaxAttempts: 1,
		HTTPClient: &http.Client{Transport: patient{http.DefaultTransport.(*http.Transport).Clone()}},
	})
}

// patient gives the transport a body that cannot be closed under it: the SDK
// closes the body when the answer begins, and the transport, if it has not yet
// looked whether the body goes on, then takes the request for failed and closes
// the connection. Servers as near as in a test answer that fast.
type patient struct{ http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(strings.NewReader(string(text)))
	return p.RoundTripper.RoundTrip(r)
}

func anonymous(url string) *sagemakerruntime.Client { return client(url, aws.AnonymousCredentials{}) }

func invocation() *sagemakerruntime.InvokeEndpointInput {
	return &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String("llama"), Body: []byte(body)}
}

func TestInvoke(t *testing.T) {
	var seen *http.Request
	url := router(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(context.WithoutCancel(r.Context()))
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "back")
		_, _ = w.Write(text)
	})
	for name, c := range map[string]*sagemakerruntime.Client{
		"anonymous": anonymous(url),
		"signed":    client(url, credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "token")),
	} {
		in := invocation()
		in.CustomAttributes, in.PrefixAwareId, in.InferenceComponentName = aws.String("there"), aws.String("tenant 1"), aws.String("fine")
		out, err := c.InvokeEndpoint(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(out.Body) != body || aws.ToString(out.ContentType) != "application/json" ||
			aws.ToString(out.InvokedProductionVariant) != "blue" || aws.ToString(out.CustomAttributes) != "back" {
			t.Errorf("%s: got %s %+v", name, out.Body, out)
		}
		h := seen.Header
		if seen.URL.Path != "/invocations" || h.Get("Content-Type") != "application/json" || h.Get("X-Amzn-SageMaker-Custom-Attributes") != "there" ||
			h.Get("X-Amzn-SageMaker-Adapter-Identifier") != "fine" {
			t.Errorf("%s: the server was asked %s %v", name, seen.URL, h)
		}
		for _, private := range []string{"Authorization", "X-Amz-Security-Token", "X-Amz-Date", "Accept-Encoding"} {
			if h.Get(private) != "" {
				t.Errorf("%s: the server got %s", name, private)
			}
		}
	}
}

// A body that is not JSON keeps what its client calls it, and an answer what its
// server does.
func TestContentType(t *testing.T) {
	var seen string
	url := router(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Content-Type")
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, `{"a":1}`)
	})
	for _, c := range []struct{ given, body, want string }{
		{"", " \n[1]", "application/json"},
		{"application/octet-stream", "{}", "application/json"},
		{"", "raw", "application/octet-stream"},
		{"text/csv", "{}", "text/csv"},
	} {
		in := invocation()
		in.Body = []byte(c.body)
		if c.given != "" {
			in.ContentType = &c.given
		}
		out, err := anonymous(url).InvokeEndpoint(t.Context(), in)
		if err != nil || seen != c.want {
			t.Fatalf("%q with %q arrived as %q, %v", c.body, c.given, seen, err)
		}
		if out.ContentType != nil {
			t.Errorf("the answer became %q", *out.ContentType)
		}
	}
}

func TestModelError(t *testing.T) {
	for _, c := range []struct {
		status  int
		message string
		code    string
	}{
		{400, `{"object":"error","message":"too long"}`, "CLIENT_ERROR_FROM_MODEL"},
		{500, "boom \xff", "SERVER_ERROR_FROM_MODEL"},
		{404, strings.Repeat("x", 100<<10), "CLIENT_ERROR_FROM_MODEL"},
	} {
		url := router(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.message)
		})
		_, err := anonymous(url).InvokeEndpoint(t.Context(), invocation())
		_, streamErr := anonymous(url).InvokeEndpointWithResponseStream(t.Context(), &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
			EndpointName: aws.String("llama"), Body: []byte(body),
		})
		for _, err := range []error{err, streamErr} {
			m, ok := errors.AsType[*types.ModelError](err)
			if !ok {
				t.Fatalf("%d became %v", c.status, err)
			}
			want := strings.ToValidUTF8(c.message[:min(len(c.message), 16<<10)], "\ufffd")
			if int(aws.ToInt32(m.OriginalStatusCode)) != c.status || aws.ToString(m.OriginalMessage) != want ||
				!strings.Contains(m.ErrorMessage(), fmt.Sprint(c.status)) || aws.ToString(m.LogStreamArn) == "" {
				t.Errorf("%d became %.300v", c.status, m)
			}
		}
	}
}

// Errors that are not the model's, as the SDK types them.
func TestErrors(t *testing.T) {
	url := router(t, nil)
	for _, c := range []struct {
		name   string
		change func(*sagemakerruntime.InvokeEndpointInput)
		code   string
		text   string
	}{
		{"endpoint", func(in *sagemakerruntime.InvokeEndpointInput) { in.EndpointName = aws.String("nobody") }, "ValidationError", "Endpoint nobody of account 000000000000 not found."},
		{"backend", func(*sagemakerruntime.InvokeEndpointInput) {}, "ServiceUnavailable", "no model server"},
		{"variant", func(in *sagemakerruntime.InvokeEndpointInput) { in.TargetVariant = aws.String("green") }, "ValidationError", "variant"},
		{"component", func(in *sagemakerruntime.InvokeEndpointInput) { in.InferenceComponentName = aws.String("x") }, "ValidationError", "component"},
		{"component of none", func(in *sagemakerruntime.InvokeEndpointInput) {
			in.EndpointName, in.InferenceComponentName = aws.String("plain"), aws.String("x")
		}, "ValidationError", "component"},
		{"prefix id", func(in *sagemakerruntime.InvokeEndpointInput) { in.PrefixAwareId = aws.String(strings.Repeat("x", 65)) }, "ValidationError", "Prefix-Aware-Id"},
	} {
		in := invocation()
		c.change(in)
		_, err := anonymous(url).InvokeEndpoint(t.Context(), in)
		got, ok := errors.AsType[smithy.APIError](err)
		if !ok || got.ErrorCode() != c.code || !strings.Contains(got.ErrorMessage(), c.text) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func stream(t *testing.T, url string) (*sagemakerruntime.InvokeEndpointWithResponseStreamOutput, *sagemakerruntime.InvokeEndpointWithResponseStreamEventStream) {
	t.Helper()
	out, err := anonymous(url).InvokeEndpointWithResponseStream(t.Context(), &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String("llama"), Body: []byte(body), Accept: aws.String("text/event-stream"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.GetStream().Close() })
	return out, out.GetStream()
}

func payload(t *testing.T, s *sagemakerruntime.InvokeEndpointWithResponseStreamEventStream) (string, bool) {
	t.Helper()
	event, ok := <-s.Events()
	if !ok {
		return "", false
	}
	part, ok := event.(*types.ResponseStreamMemberPayloadPart)
	if !ok {
		t.Fatalf("got a %T", event)
	}
	return string(part.Value.Bytes), true
}

// Each event is with the client before the server goes on.
func TestStream(t *testing.T) {
	next := make(chan struct{})
	url := router(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	out, s := stream(t, url)
	if aws.ToString(out.ContentType) != "text/event-stream" || aws.ToString(out.InvokedProductionVariant) != "blue" {
		t.Errorf("got %+v", out)
	}
	for i := range 5 {
		if got, ok := payload(t, s); !ok || got != fmt.Sprintf("data: %d\n\n", i) {
			t.Errorf("event %d is %q", i, got)
		}
		next <- struct{}{}
	}
	if got, ok := payload(t, s); ok || s.Err() != nil {
		t.Errorf("ends with %q, %v", got, s.Err())
	}
}

// The SDK takes a connection that ends for success; so we must say it.
func TestBrokenStream(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(r *http.Request)
		code string
	}{
		{"abort", func(*http.Request) { panic(http.ErrAbortHandler) }, "StreamBroken"},
		{"stall", func(r *http.Request) { <-r.Context().Done() }, "ModelInvocationTimeExceeded"},
	} {
		url := router(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			c.then(r)
		})
		_, s := stream(t, url)
		if got, _ := payload(t, s); got != "data: 1\n\n" {
			t.Errorf("%s: got %q", c.name, got)
		}
		if got, ok := payload(t, s); ok {
			t.Errorf("%s: goes on with %q", c.name, got)
		}
		broken, ok := errors.AsType[*types.ModelStreamError](s.Err())
		if !ok || aws.ToString(broken.ErrorCode_) != c.code {
			t.Errorf("%s: ends with %v", c.name, s.Err())
		}
	}
}

// A model server that cannot be reached, or is late, is a ModelError.
func TestNoAnswer(t *testing.T) {
	for name, server := range map[string]http.HandlerFunc{
		"abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"late": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	} {
		_, err := anonymous(router(t, server)).InvokeEndpoint(t.Context(), invocation())
		m, ok := errors.AsType[*types.ModelError](err)
		if !ok || aws.ToInt32(m.OriginalStatusCode) != 0 || aws.ToString(m.OriginalMessage) == "" {
			t.Errorf("%s became %v", name, err)
		}
	}
}
