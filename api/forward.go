package api

import (
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// forward reads, maps and proxies a request, and returns what is wrong while
// the client has not been answered.
func (x *exchange) forward() error {
	place, err := x.place()
	if err != nil {
		return err
	}
	x.prepare(place)
	x.answer.begin(x, &place)
	res, err := x.api.deps.Proxy.Serve(x.ctx, &x.out, &x.answer)
	x.record.Result = res
	if err != nil {
		return err
	}
	if res.Broken != nil {
		x.broken(res.Broken)
	}
	return nil
}

// broken notes that an answer that had begun was not completed.
func (x *exchange) broken(err error) {
	x.err, x.code = err, "upstream_broken"
	if x.api.lookup(err).openai.status == statusClientGone {
		x.code = "client_gone"
	}
	x.client.abort = x.client.abort || x.code == "client_gone" || x.answer.mustAbort()
}

// place reads as much of the body as the decision needs, and maps it.
func (x *exchange) place() (routing.Place, error) {
	if err := x.check(); err != nil {
		return routing.Place{}, err
	}
	span := x.startRoute()
	x.scanner = x.api.scanners.Get().(*openai.Scanner)
	place, err := x.read()
	x.api.scanners.Put(x.scanner)
	x.scanner = nil
	x.endRoute(span, &place, err)
	return place, err
}

// check refuses what can be refused before the body is read.
func (x *exchange) check() error {
	h := x.r.Header
	if x.r.ContentLength > x.body.limit {
		return errTooLarge
	}
	if coded := h["Content-Encoding"]; len(coded) > 0 && coded[0] != "" && !strings.EqualFold(coded[0], "identity") {
		return errEncoding
	}
	name := x.route.endpoint
	if name == "" {
		return nil
	}
	if x.route.dialect == SageMaker {
		if err := x.api.validator.Check(name, h, x.route.action == invokeFrame); err != nil {
			return err
		}
	}
	e := x.api.deps.Epoch()
	if err := begun(e); err != nil {
		return err
	}
	if !e.Has(name) {
		return routing.ErrUnknownEndpoint
	}
	x.record.Endpoint = name
	return nil
}

// read fills the head and maps the request in the current epoch.
func (x *exchange) read() (routing.Place, error) {
	x.counted = x.api.deps.Counts(rand.Uint64())
	x.limit, _ = x.api.deps.Epoch().TextLimit(x.route.endpoint, x.counted)
	if x.scans() {
		x.scanner.Reset(x.route.kind, x.limit)
	}
	if err := x.fill(); err != nil {
		return routing.Place{}, err
	}
	e, size := x.api.deps.Epoch(), promptSize(x.head.b, max(len(x.head.b), int(x.r.ContentLength)))
	place, err := x.locate(e, size)
	_, most := e.TextLimit(x.route.endpoint, x.counted)
	for err == nil && place.Needs() > 0 && x.limit < most {
		x.limit = min(max(place.Needs(), 2*x.limit), most) // few look so far
		if x.scans() {
			x.scanner.Reset(x.route.kind, x.limit)
			if err := x.scanner.Feed(x.head.b); err != nil {
				return routing.Place{}, err
			}
		}
		place, err = x.locate(e, size)
	}
	return place, err
}

// scans: the body has a format that is known.
func (x *exchange) scans() bool { return x.route.action == inference }

// locate maps what was read, of a prompt of so many bytes.
func (x *exchange) locate(e *routing.Epoch, size int) (routing.Place, error) {
	q := query{header: x.r.Header, endpoint: x.route.endpoint, component: component(&x.route, x.r.Header), size: size}
	if x.scans() {
		scanned, err := x.scanned()
		if err != nil {
			return routing.Place{}, err
		}
		q.scanned, x.model = scanned, scanned.Model
	} else {
		q.scanned = &openai.Request{Text: rawText(x.head.b, x.limit)}
	}
	m, err := q.target(e)
	if err != nil {
		return routing.Place{}, err
	}
	x.record.Endpoint = m.Endpoint
	x.out.Tenant = m.Tenant[:min(len(m.Tenant), 64)] // long enough to be fair by
	m.Chain, m.Uncounted = x.chain, !x.counted
	if m.Unary = !q.scanned.Stream; !x.scans() {
		m.Unary = x.route.action != invokeFrame
	}
	place, err := e.Map(&m)
	x.chain = m.Chain // the place reads it until it is used
	return place, err
}

// fill reads the body into the head: all of it, or as many windows as it takes
// to know the endpoint. It never stops elsewhere, so that a body has the same
// place in whatever pieces it arrives.
func (x *exchange) fill() error {
	scans := x.scans()
	x.head = x.api.buffers.get(x.firstSize())
	for !x.body.done {
		b := x.head.b
		over := len(b) % int(x.api.buffers.window)
		if len(b) > 0 && over == 0 && (!scans || decidable(x.api.deps.Epoch(), x.route.endpoint, x.scanner)) {
			return nil
		}
		if len(b) == cap(b) {
			if err := x.grow(); err != nil {
				return err
			}
			b = x.head.b
		}
		end := min(cap(b), len(b)-over+int(x.api.buffers.window)) // a buffer may be larger than the window
		n, err := x.body.Read(b[len(b):end])
		x.head.b = b[:len(b)+n]
		if scans {
			if err := x.scanner.Feed(x.head.b[len(b):]); err != nil {
				return err
			}
		}
		switch {
		case err == nil, x.body.done:
		case x.ctx.Err() != nil:
			return proxy.ErrClientGone // over HTTP/2, that looks like bad framing
		default:
			return err
		}
	}
	return nil
}

// firstSize is the room to begin with; a byte more than the body lets the read
// that finds its end have room as well.
func (x *exchange) firstSize() int {
	if n := x.r.ContentLength; n >= 0 {
		return int(min(n+1, x.api.buffers.window))
	}
	return 16 << 10
}

func (x *exchange) grow() error {
	old := int64(cap(x.head.b))
	x.head = x.api.buffers.grow(x.head)
	over := int64(cap(x.head.b)) - max(old, x.api.buffers.window)
	if over <= 0 {
		return nil
	}
	if !x.api.buffers.charge(over) {
		return errBuffers
	}
	x.charged += over
	return nil
}

// decidable: what was scanned says which endpoint the request is for.
func decidable(e *routing.Epoch, endpoint string, s *openai.Scanner) bool {
	if endpoint != "" || s.Model() != "" {
		return true
	}
	_, _, err := e.Resolve("")
	return err == nil
}

// scanned is what the scanner found.
func (x *exchange) scanned() (*openai.Request, error) {
	switch {
	case !x.body.done:
		return x.scanner.Partial(), nil
	case x.scanner.Odd():
		return openai.Decode(x.route.kind, x.limit, x.head.b)
	default:
		return x.scanner.Finish()
	}
}

// prepare makes the request for the backend.
func (x *exchange) prepare(place routing.Place) {
	h := x.r.Header
	delete(h, "Expect") // answered by our own server
	own := x.api.deps.Keys.backend(x.record.Endpoint)
	if own != nil || x.api.deps.Keys.guarded() {
		delete(h, "Authorization")
		delete(h, "X-Api-Key")
	}
	if x.route.dialect == SageMaker {
		sagemaker.Forward(h, x.head.b, x.route.action == invokeFrame)
	}
	if own != nil {
		h["Authorization"] = own
	}
	if c := component(&x.route, h); c != "" {
		h[sagemaker.HeaderAdapter] = []string{c}
	}
	path := x.route.path
	if x.r.URL.RawQuery != "" {
		path += "?" + x.r.URL.RawQuery
	}
	x.out = proxy.Request{
		Place: place, Method: x.r.Method, Path: path, Header: h, Tenant: x.out.Tenant,
		Body:       proxy.Body{Head: x.head.b, Size: int64(len(x.head.b))},
		Repeatable: x.route.action != unknown || x.r.Method == http.MethodGet || x.r.Method == http.MethodHead,
		Ready:      x.body.last,
	}
	if !x.body.done {
		x.out.Body.Rest, x.out.Body.Size = &x.body, x.r.ContentLength
		// A backend may answer before it has the whole body, and net/http would
		// stop reading it then. Servers of other kinds have no such mode.
		_ = x.client.control.EnableFullDuplex()
	}
}

// component is the inference component that a request asks for.
func component(rt *route, h http.Header) string {
	if rt.dialect == SageMaker {
		return h.Get(sagemaker.HeaderComponent)
	}
	return rt.component
}
