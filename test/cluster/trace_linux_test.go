package cluster

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is what a router exports of one.
type span struct {
	router, name, kind string
	id, parent, trace  string // hexadecimal
}

// receiver takes spans by OTLP over HTTP (OTLP specification 1.7, "OTLP/HTTP").
type receiver struct {
	url string

	mu    sync.Mutex // guards spans
	spans []span
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var batch collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &batch) != nil {
			t.Errorf("not a batch of spans: %v", err)
		}
		r.take(&batch)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(batch *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range batch.GetResourceSpans() {
		router := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.instance.id" {
				router = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, span{
					router: router, name: s.GetName(), kind: kind(s),
					id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()), trace: hex.EncodeToString(s.GetTraceId()),
				})
			}
		}
	}
}

func kind(s *tracev1.Span) string {
	return strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"))
}

// line waits for a span and returns it with all above it, the uppermost first; above that is the span root of the client.
func (r *receiver) line(t *testing.T, trace, root, router, name string) []span {
	t.Helper()
	var line []span
	within(t, patience, fmt.Sprintf("the span %q of %s and all above it", name, router), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		line = line[:0]
		i := slices.IndexFunc(r.spans, func(s span) bool { return s.trace == trace && s.router == router && s.name == name })
		for i >= 0 {
			line = append(line, r.spans[i])
			if r.spans[i].parent == root {
				slices.Reverse(line)
				return true
			}
			i = slices.IndexFunc(r.spans, func(s span) bool { return s.trace == trace && s.id == r.spans[i].parent })
		}
		return false
	})
	return line
}

// traced sends the spans of a ring's routers to a receiver.
func (g *ring) traced(r *receiver) *ring {
	for _, router := range g.routers {
		router.env = []string{
			"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.url, "OTEL_BSP_SCHEDULE_DELAY=50",
		}
	}
	return g
}

// tap is a model server that notes the trace headers of what is asked, in front of a real one.
func tap(t *testing.T, target string) (at string, headers <-chan string) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	noted := make(chan string, 100)
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			noted <- r.Header.Get("Traceparent")
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, noted
}

// One trace runs from a client through the router that took its request to the model server, and from an operator through a
// router that follows to the one that leads.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	spans := receive(t)
	g := prepare(t, 3).traced(spans)
	at, headers := tap(t, g.servers[0].URL)
	for _, r := range g.routers {
		r.cfg.Backends = r.cfg.Backends[:1]
		r.cfg.Backends[0].URL = at
	}
	g.start()
	leader := g.leader()
	follower := g.without(leader)[0]

	const root = "00f067aa0ba902b7"
	const request, change = "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737"
	g.send(follower.url()+"/v1/chat/completions", http.MethodPost, ask("system", "question"), "00-"+request+"-"+root+"-01")
	line := spans.line(t, request, root, follower.name, "attempt")
	t.Logf("request: %+v", line)
	if len(line) != 2 || line[0].kind != "server" || line[1].kind != "client" {
		t.Errorf("the request's spans: %+v", line)
	}
	if got, want := <-headers, "00-"+request+"-"+line[len(line)-1].id+"-01"; got != want {
		t.Errorf("the model server is told %q, want %q", got, want)
	}

	g.send(follower.desk()+"/admin/v1/backends/gpu-0/weight", http.MethodPut, `{"weight": 2}`, "00-"+change+"-"+root+"-01")
	line = spans.line(t, change, root, leader.name, "agree")
	t.Logf("change: %+v", line)
	var got []string
	for _, s := range line {
		got = append(got, s.router+" "+s.kind+" "+s.name)
	}
	want := []string{
		follower.name + " server admin PUT", follower.name + " internal propose", follower.name + " client warmring.peer.v1.Peer/Propose",
		leader.name + " server warmring.peer.v1.Peer/Propose", leader.name + " internal agree",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the change's spans, one below the other:\n%q\nwant\n%q", got, want)
	}
}

// send makes a request with a trace header, which must succeed.
func (g *ring) send(to, method, body, traceparent string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traceparent)
	resp, err := g.client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		g.t.Fatalf("%s %s: %s: %s, %v", method, to, resp.Status, answer, err)
	}
}
