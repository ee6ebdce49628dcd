package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/prefix"
)

// Explained is how a request maps: what its body says, and its place.
type Explained struct {
	Model, Adapter, Tenant string
	TextBytes              int // of canonical text that the key can depend on
	Depth                  int // chunks of the text's chain
	Place                  routing.Place
}

// Explain maps a whole body in e just as the data plane does with a scan window
// of so many bytes (0: of any size), and sends nothing. kind is the last part of a route ("chat", "completions",
// "responses", "embeddings", "rerank", "score", "messages", "invocations");
// endpoint may be "" where the model says it. The headers matter for tenant,
// variant and component. The errors are those of a request: *openai.FieldError,
// *sagemaker.ValidationError and routing's.
func Explain(e *routing.Epoch, window int, kind, endpoint string, h http.Header, body []byte) (Explained, error) {
	q := query{header: h, endpoint: endpoint, component: h.Get(sagemaker.HeaderComponent)}
	k, raw, err := kindOf(kind)
	if err != nil {
		return Explained{}, err
	}
	if window <= 0 || window > len(body) {
		window = len(body) + 1
	}
	_, limit := e.TextLimit(endpoint, true)
	head := body[:min(len(body), window)]
	if raw {
		q.scanned = &openai.Request{Text: rawText(head, limit)}
	} else if q.scanned, head, err = scan(e, endpoint, k, limit, body, window); err != nil {
		return Explained{}, err
	}
	q.size = promptSize(head, len(body))
	m, err := q.target(e)
	if err != nil {
		return Explained{}, err
	}
	place, err := e.Map(&m)
	if err != nil {
		return Explained{}, err
	}
	return Explained{
		Model: q.scanned.Model, Adapter: m.Adapter, Tenant: m.Tenant,
		TextBytes: len(m.Text.Bytes), Depth: len(prefix.AppendChain(nil, 0, m.Text)), Place: place,
	}, nil
}

// scan reads as many windows of a body as say which endpoint it is for, and returns those as head.
func scan(e *routing.Epoch, endpoint string, k openai.Kind, limit int, body []byte, window int) (r *openai.Request, head []byte, err error) {
	var s openai.Scanner
	s.Reset(k, limit)
	rest := body
	for ; len(rest) >= window; rest = rest[window:] {
		if err := s.Feed(rest[:window]); err != nil {
			return nil, nil, err
		}
		if decidable(e, endpoint, &s) {
			return s.Partial(), body[:len(body)-len(rest)+window], nil
		}
	}
	if err := s.Feed(rest); err != nil {
		return nil, nil, err
	}
	if s.Odd() {
		r, err = openai.Decode(k, limit, body)
	} else {
		r, err = s.Finish()
	}
	return r, body, err
}

// rawText is the text of a body of unknown format.
func rawText(body []byte, limit int) prefix.Text {
	return prefix.Text{Raw: true, Bytes: body[:min(len(body), limit)], Cut: len(body) > limit}
}

// kindOf reads the name of a kind of body; raw: its format is unknown.
func kindOf(name string) (k openai.Kind, raw bool, err error) {
	switch strings.TrimPrefix(name, "/v1/") {
	case "", "chat", "chat/completions":
		return openai.Chat, false, nil
	case "completions":
		return openai.Completions, false, nil
	case "responses":
		return openai.Responses, false, nil
	case "embeddings":
		return openai.Embeddings, false, nil
	case "rerank":
		return openai.Rerank, false, nil
	case "score":
		return openai.Score, false, nil
	case "messages":
		return openai.Messages, false, nil
	case "invocations":
		return 0, true, nil
	default:
		return 0, false, &openai.FieldError{Param: "kind", Message: fmt.Sprintf("is %.32q, must be chat, completions, responses, embeddings, rerank, score, messages or invocations", name)}
	}
}
