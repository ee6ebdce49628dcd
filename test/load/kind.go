package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
)

// What Check finds out about a target.
var (
	ErrUnreachable = errors.New("no server answers")
	ErrSilent      = errors.New("the server gives no answer")
	ErrTLS         = errors.New("no TLS connection")
	ErrDialect     = errors.New("the server does not speak OpenAI's chat completions")
	ErrAmbiguous   = errors.New("which model is not clear") // none was named, and there is not just one
	ErrNoModel     = errors.New("there is no such model")
)

// kind names an error in a few words, so that errors can be counted.
func kind(err error) string {
	var status *StatusError
	var network net.Error
	switch {
	case errors.As(err, &status):
		return "status " + strconv.Itoa(status.Code)
	case errors.Is(err, ErrEvent):
		return "error in stream"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, ErrBroken):
		return "stream broke off"
	case errors.Is(err, ErrDialect):
		return "not a chat's stream"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return "connection failed"
}

// remedy is what could be done about errors of a kind, after them in a sentence; empty: that depends.
func remedy(kind string) string {
	switch kind {
	case "status 400", "status 413":
		return "; if the prompts are too long for the model, a lower scale helps"
	case "status 401", "status 403":
		return "; the API key is missing, wrong or used up"
	case "status 429", "status 503":
		return "; it is too much for the servers: a lower rate, or fewer clients"
	case "timeout":
		return "; it takes the servers too long: a lower rate, fewer clients, or a longer timeout"
	case "connection refused", "connection failed", "stream broke off":
		return "; is the server still well?"
	}
	return ""
}

// found is the error of a first request in Check's words.
func found(err error, base string) error {
	err = cause(err)
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%s: %w within %s", base, ErrSilent, checkTimeout)
	case errors.Is(err, ErrDialect), errors.Is(err, ErrEvent):
		return fmt.Errorf("%s: %w", base, err)
	case errors.Is(err, ErrBroken):
		return fmt.Errorf("%s: %w: %w", base, ErrDialect, err)
	}
	if _, answered := errors.AsType[*StatusError](err); answered {
		return fmt.Errorf("%s %w", base, err)
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || untrusted || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w to %s: %w", ErrTLS, base, err)
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, base, err)
}

// cause leaves out what net/http puts around an error: the URL, which is told anyway.
func cause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
