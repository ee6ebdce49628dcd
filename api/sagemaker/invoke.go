package sagemaker

import (
	"bytes"
	"net/http"

	"github.com/warmring/warmring/routing/proxy"
)

// Invocation is the answer to InvokeEndpoint: a model server's 2xx passes with
// its headers, anything else becomes a ModelError.
type Invocation struct {
	w       Writer
	variant string
	fault   fault
	broken  bool
}

// NewInvocation answers on w a request to a variant of an endpoint.
func NewInvocation(w Writer, endpoint, variant string) *Invocation {
	return &Invocation{w: w, variant: variant, fault: fault{endpoint: endpoint}}
}

// Broken reports whether the answer broke off: the connection must be aborted
// or the client would take it for complete.
func (a *Invocation) Broken() bool { return a.broken }

// Begin passes on the head of an answer that is 2xx.
func (a *Invocation) Begin(r *proxy.Reply) error {
	if a.fault.begin(r.Status) {
		return nil
	}
	h := a.w.Header()
	r.Fields.Displace(h)
	r.Fields.AddTo(h)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http would guess one
	}
	h.Set(headerInvokedVariant, a.variant)
	a.w.WriteHeader(r.Status)
	return nil
}

// Write passes on a piece of the answer, or keeps it for the ModelError.
func (a *Invocation) Write(p []byte) (int, error) {
	if a.fault.status != 0 {
		return a.fault.keep(p), nil
	}
	n, err := a.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, a.w.FlushError()
}

// End writes the ModelError, if it is one.
func (a *Invocation) End(trailer http.Header, broken error) {
	if a.fault.status != 0 {
		a.fault.write(a.w)
		return
	}
	a.broken = broken != nil
	for name, values := range trailer {
		a.w.Header()[http.TrailerPrefix+name] = values
	}
}

// fault collects a model server's answer that is not 2xx.
type fault struct {
	endpoint string
	status   int // 0: the answer is fine
	message  bytes.Buffer
}

// begin reports whether an answer with this status is a fault.
func (f *fault) begin(status int) bool {
	if status >= 200 && status < 300 {
		return false
	}
	f.status = status
	return true
}

func (f *fault) keep(p []byte) int {
	f.message.Write(p[:min(len(p), maxOriginalMessage-f.message.Len())])
	return len(p)
}

// write sends the ModelError. That the client is gone then is nobody's fault.
func (f *fault) write(w Writer) {
	e := ModelError(ModelFault{Status: f.status, Message: f.message.String(), Endpoint: f.endpoint})
	if e.Write(w) == nil {
		_ = w.FlushError()
	}
}
