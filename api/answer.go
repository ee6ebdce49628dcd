package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
	"github.com/warmring/warmring/routing/proxy/field"
)

// answer puts our own headers on a backend's answer and hands it to the dialect.
type answer struct {
	x     *exchange
	to    proxy.Answer
	pass  passthrough
	own   [5]field.Field // what X-Warmring-... tell
	began time.Time      // zero without tracing
}

// begin makes a the answer of x, in the dialect of its route.
func (a *answer) begin(x *exchange, place *routing.Place) {
	a.x = x
	switch x.route.action {
	case invoke:
		a.to = sagemaker.NewInvocation(&x.client, place.Endpoint(), place.Variant())
	case invokeFrame:
		a.to = sagemaker.NewStream(&x.client, place.Endpoint(), place.Variant())
	default:
		a.pass = passthrough{client: &x.client, broken: brokenEvent(&x.route)}
		a.to = &a.pass
	}
}

func (a *answer) Begin(r *proxy.Reply) error {
	x := a.x
	if x.span != nil {
		a.began = x.api.deps.Now()
	}
	if x.api.cfg.Headers {
		a.own = [...]field.Field{
			{Name: "X-Warmring-Router", Value: x.api.deps.RouterName},
			{Name: "X-Warmring-Backend", Value: r.Lease.Backend.ID},
			{Name: "X-Warmring-Epoch", Value: r.Lease.Epoch.ID()},
			{Name: "X-Warmring-Home", Value: r.Lease.Home},
			{Name: "X-Warmring-Decision", Value: string(r.Lease.Decision)},
		}
		x.client.addFields(a.own[:])
		// A backend that is a router itself has told the same of its own choice.
		r.Fields = slices.DeleteFunc(r.Fields, func(f field.Field) bool { return strings.HasPrefix(f.Name, "X-Warmring-") })
	}
	return a.to.Begin(r)
}

func (a *answer) Write(p []byte) (int, error) { return a.to.Write(p) }

func (a *answer) End(trailer http.Header, broken error) { a.to.End(trailer, broken) }

// mustAbort: the dialect has no way of its own to say that an answer broke.
func (a *answer) mustAbort() bool {
	_, framed := a.to.(*sagemaker.Stream)
	return !framed
}

// fail ends an event stream that a bug of ours has broken.
func (a *answer) fail() {
	if s, framed := a.to.(*sagemaker.Stream); framed && a.x.client.status == http.StatusOK {
		s.Fail(errPanic)
	}
}

// passthrough is an answer on the OpenAI routes: as the backend gave it.
type passthrough struct {
	client *client
	broken string  // the event that tells of a broken stream
	events bool    // server-sent events that we could add one to
	tail   [3]byte // the last bytes written
}

func (p *passthrough) Begin(r *proxy.Reply) error {
	h := p.client.Header()
	r.Fields.Displace(h)
	p.client.addFields(r.Fields)
	if r.Fields.Get("Content-Type") == "" {
		h["Content-Type"] = nil // or net/http would guess one
	}
	p.events = r.Stream && r.Fields.Get("Content-Encoding") == ""
	p.tail = [3]byte{0, '\n', '\n'}
	p.client.WriteHeader(r.Status)
	return nil
}

func (p *passthrough) Write(b []byte) (int, error) {
	n, err := p.client.Write(b)
	if err != nil {
		return n, err
	}
	for i := max(0, len(b)-len(p.tail)); i < len(b); i++ {
		p.tail = [3]byte{p.tail[1], p.tail[2], b[i]}
	}
	return n, p.client.FlushError()
}

// End passes on the trailer. A broken stream of events gets an event that says
// so; in every case a broken answer's connection is aborted.
func (p *passthrough) End(trailer http.Header, broken error) {
	for name, values := range trailer {
		if len(values) > 0 {
			p.client.Header()[http.TrailerPrefix+name] = values
		}
	}
	if broken == nil {
		return
	}
	p.client.abort = true
	if !p.events {
		return
	}
	event := p.broken
	if string(p.tail[1:]) != "\n\n" && string(p.tail[:]) != "\n\r\n" {
		event = "\n\n" + event // ends the event that broke off
	}
	if _, err := p.client.Write([]byte(event)); err == nil {
		_ = p.client.FlushError() // the connection is aborted anyway
	}
}

// brokenEvent is what a stream that broke off ends with. OpenAI's SDKs raise
// what is in `error`; the Responses API and Anthropic's messages have an event of
// their own besides, which clients without an SDK wait for.
func brokenEvent(rt *route) string {
	const (
		message = `"message":"the model server's answer ended early"`
		openAI  = `"error":{` + message + `,"type":"server_error","code":"upstream_broken"}`
	)
	switch {
	case rt.action != inference:
	case rt.kind == openai.Responses:
		return `event: error` + "\n" + `data: {"type":"error",` + message + `,"code":"upstream_broken","param":null,` + openAI + "}\n\n"
	case rt.kind == openai.Messages:
		return `event: error` + "\n" + `data: {"type":"error","error":{"type":"api_error",` + message + "}}\n\n"
	}
	return `data: {` + openAI + "}\n\n"
}
