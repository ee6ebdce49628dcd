package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/warmring/warmring/routing"
)

var (
	// ErrClientGone says that the client closed its connection or gave up.
	ErrClientGone = errors.New("the client went away")
	// ErrQueueFull says that every backend is full, and so is the queue before them.
	ErrQueueFull = fmt.Errorf("%w: the queue is full", routing.ErrSaturated)
	// ErrQueueTimeout says that no backend had room before the queue's timeout.
	ErrQueueTimeout = fmt.Errorf("%w: no slot became free in time", routing.ErrSaturated)
	// ErrBody wraps what went wrong with reading the client's body.
	ErrBody = errors.New("reading the request body")
	// ErrTarget says that the path or query cannot stand in a request line.
	ErrTarget = errors.New("the path or query cannot be sent as it is: escape spaces and control characters")

	errHeadTooLarge = errors.New("response head is too large")
	errUpgrade      = errors.New("backend switched protocols unasked")
)

// Kind says how a backend failed.
type Kind string

// The ways a backend fails before or in its answer.
const (
	Refused  Kind = "refused"  // no connection, or it ended before the request was sent
	Reset    Kind = "reset"    // the connection ended
	Timeout  Kind = "timeout"  // nothing came in time
	Protocol Kind = "protocol" // the answer is not HTTP/1.1
)

// UpstreamError is a backend's failure.
type UpstreamError struct {
	Kind    Kind
	Backend string
	Err     error
}

func (e *UpstreamError) Error() string {
	return fmt.Sprintf("backend %s: %s: %v", e.Backend, e.Kind, e.Err)
}

func (e *UpstreamError) Unwrap() error { return e.Err }

// upstream classifies err of an exchange with backend.
func upstream(backend string, err error) *UpstreamError {
	if known, ok := errors.AsType[*UpstreamError](err); ok {
		return known
	}
	kind := Protocol
	_, network := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		kind = Timeout
	case network, ended(err):
		kind = Reset
	}
	return &UpstreamError{Kind: kind, Backend: backend, Err: err}
}

// ended: the other side closed the connection.
func ended(err error) bool {
	return isEOF(err) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}
