package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/warmring/warmring/api/openai"
)

// Dialect is the language of a route: its errors, and how it streams.
type Dialect string

// The dialects.
const (
	OpenAI    Dialect = "openai"
	SageMaker Dialect = "sagemaker"
)

// what is done with a request.
type action uint8

const (
	unknown     action = iota // no such route
	inference                 // OpenAI-style body: scan, map, proxy
	invoke                    // raw body, one answer
	invokeFrame               // raw body, event-stream answer
	models                    // the list of models
	model                     // one of them
	health
	ready
	control     // SageMaker's control plane
	unsupported // a SageMaker operation that this version lacks
)

// route is what a method and path mean.
type route struct {
	name      string // bounded set, for metrics and spans
	action    action
	dialect   Dialect
	kind      openai.Kind
	allow     string // methods, as in the Allow header
	endpoint  string // from the path; "" when the body's model decides
	component string // inference component from the path
	path      string // what the model server is asked, without query
	id        string // of one model
}

const (
	allowPost = "OPTIONS, POST"
	allowGet  = "GET, HEAD, OPTIONS"
)

// maxSegments is the number of path segments that are told apart.
const maxSegments = 10

// parse finds the route of a URL. Segments are split before they are decoded,
// so an escaped slash is part of a name; one slash at the end is ignored.
func parse(u *url.URL) route {
	if op, ok := strings.CutPrefix(u.Path, "/v1/"); ok && u.RawPath == "" { // what most requests ask for
		if r, ok := inferenceRoute(op); ok {
			return r
		}
	}
	path := strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if path == "" {
		return route{name: "control", action: control, dialect: SageMaker}
	}
	var seg [maxSegments]string
	n := 0
	for part := range strings.SplitSeq(path, "/") {
		name, err := url.PathUnescape(part)
		if n == maxSegments || err != nil {
			return other(u)
		}
		seg[n] = name
		n++
	}
	switch {
	case n == 1 && seg[0] == "healthz":
		return route{name: "health", action: health, dialect: OpenAI, allow: allowGet}
	case n == 1 && seg[0] == "readyz":
		return route{name: "ready", action: ready, dialect: OpenAI, allow: allowGet}
	case seg[0] == "v1":
		return openaiRoute(u, seg[1:n])
	case n >= 3 && seg[0] == "endpoints":
		return endpoint(u, seg[1:n])
	default:
		return other(u)
	}
}

// other is a path without routing of its own.
func other(u *url.URL) route {
	return route{name: "other", dialect: OpenAI, path: u.EscapedPath()}
}

// endpoint is a path below /endpoints/{name}.
func endpoint(u *url.URL, seg []string) route {
	name, rest := seg[0], seg[1:]
	if len(rest) == 1 {
		return operation(name, rest[0])
	}
	component := ""
	if rest[0] == "inference-components" && len(rest) > 2 {
		component, rest = rest[1], rest[2:]
	}
	if len(rest) < 2 || rest[0] != "openai" {
		return route{name: "other", dialect: SageMaker}
	}
	r := other(u)
	if rest[1] == "v1" {
		r = openaiRoute(u, rest[2:])
	}
	if r.action == unknown {
		r.path = tail(u.EscapedPath(), len(seg)+1-len(rest)+1)
	}
	r.endpoint, r.component = name, component
	return r
}

// tail is path without its first n segments.
func tail(path string, n int) string {
	for range n {
		_, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	}
	return "/" + path
}

// operation is one of SageMaker's runtime.
func operation(name, op string) route {
	r := route{dialect: SageMaker, endpoint: name, allow: allowPost, path: "/invocations"}
	switch op {
	case "invocations":
		r.name, r.action = "invocations", invoke
	case "invocations-response-stream":
		r.name, r.action = "invocations_stream", invokeFrame
	case "async-invocations", "invocations-bidirectional-stream":
		r.name, r.action = "unsupported", unsupported
	default:
		return route{name: "other", dialect: SageMaker}
	}
	return r
}

// openaiRoute is a path below /v1.
func openaiRoute(u *url.URL, seg []string) route {
	switch {
	case len(seg) == 0:
		return other(u)
	case len(seg) == 2 && seg[0] == "chat" && seg[1] == "completions":
		r, _ := inferenceRoute("chat/completions")
		return r
	case seg[0] == "models" && len(seg) == 1:
		return route{name: "models", action: models, dialect: OpenAI, allow: allowGet}
	case seg[0] == "models":
		return route{name: "model", action: model, dialect: OpenAI, allow: allowGet, id: strings.Join(seg[1:], "/")}
	}
	if r, ok := inferenceRoute(seg[0]); ok && len(seg) == 1 && r.name == seg[0] { // not one with an escaped slash
		return r
	}
	return other(u)
}

// inferenceRoute is an operation below /v1 whose body is scanned.
func inferenceRoute(op string) (route, bool) {
	r := route{name: op, action: inference, dialect: OpenAI, allow: allowPost}
	switch op {
	case "chat/completions":
		r.name, r.kind, r.path = "chat_completions", openai.Chat, "/v1/chat/completions"
	case "completions":
		r.kind, r.path = openai.Completions, "/v1/completions"
	case "responses":
		r.kind, r.path = openai.Responses, "/v1/responses"
	case "embeddings":
		r.kind, r.path = openai.Embeddings, "/v1/embeddings"
	case "rerank":
		r.kind, r.path = openai.Rerank, "/v1/rerank"
	case "score":
		r.kind, r.path = openai.Score, "/v1/score"
	case "messages":
		r.kind, r.path = openai.Messages, "/v1/messages"
	default:
		return route{}, false
	}
	return r, true
}

// allows reports whether method is one of r's.
func (r *route) allows(method string) bool {
	switch r.allow {
	case allowPost:
		return method == http.MethodPost
	case allowGet:
		return method == http.MethodGet || method == http.MethodHead
	default:
		return true
	}
}
