package api

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// answer puts our own headers on a backend's answer and hands it to the dialect.
type answer struct {
	x     *exchange
	to    proxy.Answer
	pass  passthrough
	began time.Time
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
	a.began = x.api.deps.Now()
	h := x.client.Header()
	if x.api.cfg.Headers {
		values := [...]string{x.api.deps.RouterName, r.Lease.Backend.ID, r.Lease.Epoch.ID(), r.Lease.Home, string(r.Lease.Decision)}
		h["X-Warmring-Router"] = values[0:1:1]
		h["X-Warmring-Backend"] = values[1:2:2]
		h["X-Warmring-Epoch"] = values[2:3:3]
		h["X-Warmring-Home"] = values[3:4:4]
		h["X-Warmring-Decision"] = values[4:5:5]
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
	vary := h["Vary"]
	maps.Copy(h, r.Header)
	if vary != nil { // both hold
		h["Vary"] = append(vary, r.Header["Vary"]...)
	}
	if _, ok := h["Content-Length"]; !ok && r.ContentLength >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http would guess one
	}
	p.events = r.Stream && h.Get("Content-Encoding") == ""
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
