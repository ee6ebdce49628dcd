package peer

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
)

// What another router may answer. The text of an error is the other router's, and
// errors.Is finds the fact; a change that is not valid comes as *routing.ChangeError,
// one for each field, joined.
var (
	ErrNoQuorum = errors.New("no quorum")
	ErrConflict = errors.New("the epoch is not the one the change was made for")
	ErrShrink   = errors.New("the change takes too much of the fleet at once")
	// ErrUnknown: the change may have been applied, or be applied yet.
	ErrUnknown = errors.New("the outcome of the change is not known")
	// ErrForeign: the other router belongs to another cluster.
	ErrForeign = errors.New("another cluster")
	// ErrUnreachable: there is no connection; nothing was sent.
	ErrUnreachable = errors.New("the router cannot be reached")
)

// NotLeaderError says that the asked router does not lead.
type NotLeaderError struct {
	Leader string // server id of who does, empty when the asked one does not know
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "not the leader, and no leader is known"
	}
	return "not the leader; that is " + e.Leader
}

// kinds pairs the facts that need no detail with their code on the wire. The status
// code is for people who look at the traffic.
func kinds() []kind {
	return []kind{
		{peerpb.Failure_NO_QUORUM, codes.Unavailable, ErrNoQuorum},
		{peerpb.Failure_CONFLICT, codes.Aborted, ErrConflict},
		{peerpb.Failure_SHRINK, codes.FailedPrecondition, ErrShrink},
		{peerpb.Failure_UNKNOWN, codes.Unknown, ErrUnknown},
		{peerpb.Failure_FOREIGN, codes.PermissionDenied, ErrForeign},
	}
}

type kind struct {
	kind peerpb.Failure_Kind
	code codes.Code
	err  error
}

// outward makes the status for an error of this router.
func outward(err error) error {
	if _, is := status.FromError(err); err == nil || is {
		return err
	}
	code, failure := codes.Internal, &peerpb.Failure{}
	if leader, ok := errors.AsType[*NotLeaderError](err); ok {
		code = codes.FailedPrecondition
		failure.Kind, failure.Leader = peerpb.Failure_NOT_LEADER, leader.Leader
	} else if fields := fieldsOf(err); len(fields) > 0 {
		code = codes.InvalidArgument
		failure.Kind, failure.Fields = peerpb.Failure_INVALID, fields
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Err()
	} else {
		for _, k := range kinds() {
			if errors.Is(err, k.err) {
				code, failure.Kind = k.code, k.kind
			}
		}
	}
	s := status.New(code, err.Error())
	if detailed, err := s.WithDetails(failure); err == nil {
		s = detailed
	}
	return s.Err()
}

// fieldsOf finds the change errors in err, in the order they were joined.
func fieldsOf(err error) []*peerpb.Failure_Field {
	if e, ok := err.(*routing.ChangeError); ok { //nolint:errorlint // the loop below unwraps
		return []*peerpb.Failure_Field{{Path: e.Path, Message: e.Msg}}
	}
	var inner []error
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	var out []*peerpb.Failure_Field
	for _, e := range inner {
		out = append(out, fieldsOf(e)...)
	}
	return out
}

// remoteError is a fact with the other router's words.
type remoteError struct {
	text    string
	fact    error
	certain bool // that the call had no effect
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.fact }

// inward makes an error of a status that a call ended with.
func inward(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, d := range s.Details() {
		if failure, ok := d.(*peerpb.Failure); ok {
			return &remoteError{text: s.Message(), fact: factOf(failure, err), certain: failure.GetKind() != peerpb.Failure_UNKNOWN}
		}
	}
	switch s.Code() {
	case codes.DeadlineExceeded:
		return &remoteError{text: s.Message(), fact: context.DeadlineExceeded}
	case codes.Canceled:
		return &remoteError{text: s.Message(), fact: context.Canceled}
	case codes.ResourceExhausted, codes.Unimplemented: // refused before it was handled
		return &remoteError{text: s.Message(), fact: err, certain: true}
	default:
		return err
	}
}

func factOf(f *peerpb.Failure, err error) error {
	switch f.GetKind() {
	case peerpb.Failure_NOT_LEADER:
		return &NotLeaderError{Leader: f.GetLeader()}
	case peerpb.Failure_INVALID:
		errs := make([]error, len(f.GetFields()))
		for i, field := range f.GetFields() {
			errs[i] = &routing.ChangeError{Path: field.GetPath(), Msg: field.GetMessage()}
		}
		return errors.Join(errs...)
	default:
		for _, k := range kinds() {
			if k.kind == f.GetKind() {
				return k.err
			}
		}
		return err
	}
}
