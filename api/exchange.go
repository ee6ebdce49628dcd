package api

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing/proxy"
)

// exchange is one request and its answer. Exchanges are pooled: nothing of one
// may be kept when it is over.
type exchange struct {
	api    *API
	r      *http.Request
	ctx    context.Context //nolint:containedctx // lives as long as the request
	span   trace.Span      // nil without tracing
	start  time.Time
	id     string // request id
	route  route
	client client
	body   body

	scanner *openai.Scanner // while the body is read: streams are many and long
	limit   int             // bytes of canonical text that are wanted
	counted bool            // among the requests that hot tables are made from
	head    *buffer         // what was read of the body
	charged int64           // bytes of head that are booked beyond the window
	model   string          // as asked for
	chain   []uint64        // memory for the map
	out     proxy.Request
	answer  answer

	err    error
	code   string // of err
	record Record
}

// open begins an exchange.
func (a *API) open(w http.ResponseWriter, r *http.Request) *exchange {
	x, ok := a.exchanges.Get().(*exchange)
	if !ok {
		x = &exchange{api: a}
	}
	x.r, x.ctx, x.start = r, r.Context(), a.deps.Now()
	x.route = parse(r.URL)
	x.client = client{ResponseWriter: w, control: *http.NewResponseController(w), timeout: a.cfg.Timeouts.Write}
	x.body = body{r: r.Body, control: &x.client.control, timeout: a.cfg.Timeouts.Body, limit: int64(a.cfg.Limits.Body), last: x.start}
	x.body.done = r.Body == nil || r.Body == http.NoBody
	ids := requestIDs(r.Header)
	x.id = ids[0]
	w.Header()["X-Request-Id"] = ids
	if x.route.dialect == SageMaker || x.route.endpoint != "" {
		w.Header()[sagemaker.HeaderRequestID] = ids
	}
	x.startSpan()
	return x
}

// serve answers the request.
func (x *exchange) serve() {
	if err := x.dispatch(); err != nil {
		x.fail(err)
	}
}

// close records the exchange and gives back what it held. As the last thing it
// aborts the connection, if the answer must not look complete.
func (x *exchange) close() {
	v := recover()
	if v != nil && !mayAbort(v) {
		x.api.deps.Log.ErrorContext(x.ctx, "panic while serving a request", "route", x.route.name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		x.answer.fail()
		x.client.abort = x.client.status != 0
		x.fail(errPanic)
	}
	x.finish()
	abort := x.client.abort || mayAbort(v)
	x.api.buffers.held.Add(-x.charged)
	if v == nil { // after a panic, somebody may still hold on to the parts
		x.release()
	}
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// finish tells the span, the log and, as the last one, the observer.
func (x *exchange) finish() {
	rec := &x.record
	rec.Route, rec.Dialect, rec.Status = x.route.name, x.route.dialect, x.client.status
	rec.Err, rec.Code = x.err, x.code
	x.endSpan()
	if share := x.api.cfg.AccessLog; share > 0 && rand.Float64() < share {
		x.log()
	}
	if x.api.deps.Observer != nil && x.route.action != health && x.route.action != ready {
		x.api.deps.Observer.Observe(x.ctx, rec)
	}
}

// release empties x and puts it back.
func (x *exchange) release() {
	if x.out.Body.Rest != nil && x.body.open() {
		// In full duplex net/http must not be left to find the body's end after
		// the handler has returned.
		x.body.arm()
		_ = x.r.Body.Close()
	}
	if x.head != nil {
		x.api.buffers.put(x.head)
	}
	*x = exchange{api: x.api, chain: x.chain[:0]}
	x.api.exchanges.Put(x)
}

// log writes one line; never prompts nor keys.
func (x *exchange) log() {
	rec := &x.record
	x.api.deps.Log.InfoContext(x.ctx, "request",
		"request_id", x.id, "route", rec.Route, "dialect", string(rec.Dialect), "status", rec.Status, "code", rec.Code,
		"endpoint", rec.Endpoint, "variant", rec.Variant, "backend", rec.Backend, "decision", string(rec.Decision),
		"attempts", rec.Attempts, "stream", rec.Stream, "bytes_in", rec.BytesIn, "bytes_out", rec.BytesOut,
		"prompt_tokens", rec.Usage.Prompt, "cached_tokens", rec.Usage.Cached, "completion_tokens", rec.Usage.Completion,
		"first_byte", rec.FirstByte, "overhead", rec.Overhead, "duration", x.api.deps.Now().Sub(x.start))
}

// dispatch does what the route says, or returns what is wrong.
func (x *exchange) dispatch() error {
	rt := &x.route
	if rt.action == control && (x.r.Method != http.MethodPost || !strings.HasPrefix(x.r.Header.Get("X-Amz-Target"), "SageMaker.")) {
		rt.action, rt.dialect, rt.name = unknown, OpenAI, "other"
	}
	if x.cors() {
		return nil
	}
	if rt.action == unknown && (!x.api.cfg.ForwardOther || rt.path == "") {
		return fmt.Errorf("%w: %.256s", errRoute, x.r.URL.EscapedPath())
	}
	if rt.allow != "" && !rt.allows(x.r.Method) {
		x.client.Header().Set("Allow", rt.allow)
		if x.r.Method == http.MethodOptions {
			x.client.WriteHeader(http.StatusNoContent)
			return nil
		}
		return fmt.Errorf("%w: %s takes %s", errMethod, x.r.URL.EscapedPath(), rt.allow)
	}
	if rt.action == health {
		x.client.json(http.StatusOK, state{"ok"})
		return nil
	}
	if rt.action == ready {
		return x.ready()
	}
	if err := x.api.deps.Keys.check(x.r.Header); err != nil {
		return err
	}
	switch rt.action {
	case models:
		return x.models()
	case model:
		return x.oneModel()
	case control, unsupported:
		return fmt.Errorf("%w: %s", errOperation, operationName(x.r))
	default:
		return x.forward()
	}
}

// state answers for liveness and readiness.
type state struct {
	Status string `json:"status"`
}

func (x *exchange) ready() error {
	if check := x.api.deps.Ready; check != nil {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", errNotReady, err)
		}
	}
	x.client.json(http.StatusOK, state{"ready"})
	return nil
}

// operationName is what a SageMaker client called.
func operationName(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return fmt.Sprintf("%.64s", target)
	}
	return r.URL.EscapedPath()
}

// requestIDs is a header's values with the request's id: the client's own if it
// is one, else a new one.
func requestIDs(h http.Header) []string {
	ids := h["X-Request-Id"]
	if len(ids) == 0 || !sane(ids[0]) {
		ids = []string{newID()}
		h["X-Request-Id"] = ids // so that the backend logs it too
	}
	return ids[:1:1]
}

// sane: 1 to 128 visible ASCII characters.
func sane(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// newID returns a random UUID (RFC 9562, version 4). It names, it guards nothing.
func newID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64()&^0xf000|0x4000)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()>>2|1<<63)
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	hex.Encode(text[:], id[:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:])
	return string(text[:])
}
