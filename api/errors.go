package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// What can be wrong with a request before a backend sees it.
var (
	errRoute       = errors.New("no such route")
	errMethod      = errors.New("method not allowed")
	errTooLarge    = errors.New("the request body is too large")
	errBodyTimeout = errors.New("the request body did not arrive in time")
	errBodyFraming = errors.New("the request body is not framed as HTTP wants it")
	errEncoding    = errors.New("the request has a Content-Encoding: send the body without compression")
	errBuffers     = errors.New("too much is buffered for requests whose `model` comes late: put it first in the body, or name the endpoint in the URL")
	errModelNeeded = errors.New("there are several endpoints: name one of them, an alias or an adapter in `model`, or use /endpoints/{name}/openai/v1")
	errInURL       = errors.New("there are several endpoints, and on this route only the URL says which: put /endpoints/{name}/openai before the path")
	errComponent   = errors.New("the endpoint has no such inference component")
	errOperation   = errors.New("this operation is not available in this version")
	errPanic       = errors.New("internal error")
	errNotReady    = errors.New("not ready")
)

// status 499 is nginx's for a client that closed the connection; it is never
// sent, only recorded.
const statusClientGone = 499

// reply is how an error reads in one dialect: kind is OpenAI's `type`, code
// OpenAI's `code` or AWS's error type.
type reply struct {
	status int
	kind   string
	code   string
}

// condition is one row of the table of errors.
type condition struct {
	is         func(error) bool
	openai     reply
	aws        reply
	retryAfter int // seconds; 0: the header is not sent
}

const (
	invalid    = "invalid_request_error"
	serverSide = "server_error"
	validation = "ValidationError"
)

// conditions is the table of errors: the first row that fits a request's error
// says what its client is told. The last row fits all: a bug.
func conditions() []condition {
	sentinel := func(target error) func(error) bool {
		return func(err error) bool { return errors.Is(err, target) }
	}
	return []condition{
		{is: sentinel(proxy.ErrClientGone), openai: reply{statusClientGone, invalid, "client_gone"}, aws: reply{statusClientGone, "", "ClientGone"}},
		{is: sentinel(errTooLarge), openai: reply{413, invalid, "request_too_large"}, aws: reply{400, "", validation}},
		{is: sentinel(errBodyTimeout), openai: reply{408, invalid, "request_timeout"}, aws: reply{408, "", validation}},
		{is: sentinel(errBodyFraming), openai: reply{400, invalid, "bad_request"}, aws: reply{400, "", validation}},
		{is: sentinel(proxy.ErrTarget), openai: reply{400, invalid, "bad_request"}, aws: reply{400, "", validation}},
		{is: sentinel(errEncoding), openai: reply{415, invalid, "unsupported_encoding"}, aws: reply{415, "", validation}},
		{is: is[*openai.FieldError], openai: reply{400, invalid, "invalid_body"}, aws: reply{400, "", validation}},
		{is: is[*sagemaker.ValidationError], openai: reply{400, invalid, "validation_error"}, aws: reply{400, "", validation}},
		{is: sentinel(errModelNeeded), openai: reply{400, invalid, "model_required"}, aws: reply{400, "", validation}},
		{is: sentinel(errInURL), openai: reply{400, invalid, "endpoint_required"}, aws: reply{400, "", validation}},
		{is: sentinel(routing.ErrUnknownModel), openai: reply{404, invalid, "model_not_found"}, aws: reply{400, "", validation}},
		{is: sentinel(routing.ErrUnknownEndpoint), openai: reply{400, invalid, "validation_error"}, aws: reply{400, "", validation}},
		{is: sentinel(routing.ErrUnknownVariant), openai: reply{400, invalid, "validation_error"}, aws: reply{400, "", validation}},
		{is: sentinel(errComponent), openai: reply{400, invalid, "validation_error"}, aws: reply{400, "", validation}},
		{is: sentinel(errKey), openai: reply{401, invalid, "invalid_api_key"}, aws: reply{403, "", "AccessDeniedException"}},
		{is: sentinel(errRoute), openai: reply{404, invalid, "unknown_url"}, aws: reply{404, "", "UnknownOperationException"}},
		{is: sentinel(errOperation), openai: reply{400, invalid, "not_available"}, aws: reply{400, "", "UnknownOperationException"}},
		{is: sentinel(errMethod), openai: reply{405, invalid, "method_not_allowed"}, aws: reply{405, "", "UnknownOperationException"}},
		{is: sentinel(routing.ErrSaturated), openai: reply{429, "rate_limit_error", "overloaded"}, aws: reply{503, "", "ServiceUnavailable"}, retryAfter: 1},
		{is: sentinel(errBuffers), openai: reply{429, "rate_limit_error", "overloaded"}, aws: reply{503, "", "ServiceUnavailable"}, retryAfter: 1},
		{is: sentinel(routing.ErrNoBackend), openai: reply{503, serverSide, "no_backend"}, aws: reply{503, "", "ServiceUnavailable"}, retryAfter: 1},
		{is: sentinel(routing.ErrNoEndpoint), openai: reply{503, serverSide, "no_endpoint"}, aws: reply{400, "", validation}, retryAfter: 1},
		{is: sentinel(errNotReady), openai: reply{503, serverSide, "not_ready"}, aws: reply{503, "", "ServiceUnavailable"}, retryAfter: 1},
		{is: late, openai: reply{504, serverSide, "upstream_timeout"}, aws: reply{424, "", "ModelError"}},
		{is: is[*proxy.UpstreamError], openai: reply{502, serverSide, "upstream_unreachable"}, aws: reply{424, "", "ModelError"}},
		{is: func(error) bool { return true }, openai: reply{500, serverSide, "internal_error"}, aws: reply{500, "", "InternalFailure"}},
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// late: the backend did not answer in time.
func late(err error) bool {
	up, ok := errors.AsType[*proxy.UpstreamError](err)
	return ok && up.Kind == proxy.Timeout
}

// lookup finds the row of err.
func (a *API) lookup(err error) *condition {
	for i := range a.table {
		if a.table[i].is(err) {
			return &a.table[i]
		}
	}
	return &a.table[len(a.table)-1]
}

// fail tells the client of x's error, unless it has been told something else.
func (x *exchange) fail(err error) {
	x.err = err
	c := x.api.lookup(err)
	said := c.openai
	if x.route.dialect == SageMaker {
		said = c.aws
	}
	x.code = said.code
	if x.client.status != 0 {
		return
	}
	if said.status == statusClientGone {
		x.client.status = statusClientGone
		x.client.abort = true
		return
	}
	if said.status == http.StatusInternalServerError {
		x.api.deps.Log.ErrorContext(x.ctx, "request failed for no known reason", "route", x.route.name, "request_id", x.id, "error", err)
	}
	h := x.client.Header()
	if c.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(c.retryAfter))
	}
	if said.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if x.body.open() {
		x.body.arm() // net/http reads a little more of it, to be polite
		if x.r.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
	}
	if x.route.dialect == SageMaker {
		x.failAWS(said, err)
		return
	}
	param := ""
	if field, ok := errors.AsType[*openai.FieldError](err); ok {
		param, err = field.Param, errors.New(field.Message)
	}
	x.client.json(said.status, envelope{openAIError{Message: x.message(said, err), Type: said.kind, Param: optional(param), Code: said.code}})
}

// failAWS writes the error in AWS's shape.
func (x *exchange) failAWS(said reply, err error) {
	e := &sagemaker.Error{Status: said.status, Type: said.code, Message: x.message(said, err)}
	if up, ok := errors.AsType[*proxy.UpstreamError](err); ok {
		e = sagemaker.Unreachable(x.route.endpoint, up)
	}
	if e.Write(&x.client) == nil {
		_ = x.client.FlushError() // the client is gone: nobody is left to tell
	}
}

// message is what the client reads. Backends' addresses stay inside, and so
// does what a bug has to say.
func (x *exchange) message(said reply, err error) string {
	up, upstream := errors.AsType[*proxy.UpstreamError](err)
	switch {
	case said.status == http.StatusInternalServerError:
		return errPanic.Error()
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("%v: the limit is %v", errTooLarge, x.api.cfg.Limits.Body)
	case upstream:
		return "backend " + up.Backend + " gave no answer: " + string(up.Kind)
	case errors.Is(err, routing.ErrUnknownEndpoint):
		return sagemaker.EndpointNotFound(x.route.endpoint)
	default:
		return err.Error()
	}
}

// envelope is OpenAI's shape of an error.
type envelope struct {
	Error openAIError `json:"error"`
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// json answers with v.
func (c *client) json(status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"internal error","type":"server_error"}}`)
	}
	h := c.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.WriteHeader(status)
	if _, err := c.Write(text); err == nil {
		_ = c.FlushError() // the client is gone: nobody is left to tell
	}
}
