package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/api/strict"
	"github.com/warmring/warmring/routing"
)

// notFoundError names something that the fleet does not have.
type notFoundError struct{ param, message string }

func (e *notFoundError) Error() string { return e.message }

// invalidError is what the client got wrong, in a part of the request or, without
// param, in all of it.
type invalidError struct {
	error
	param string
}

func (e *invalidError) Unwrap() error { return e.error }

func invalidf(param, format string, args ...any) error {
	return &invalidError{fmt.Errorf(format, args...), param}
}

// refuse answers with what is wrong, and with which part of the request.
func (a *Admin) refuse(w http.ResponseWriter, err error) {
	status, param := refusal(err)
	switch {
	case errors.Is(err, ErrNoQuorum):
		w.Header().Set("Retry-After", retryAfter)
	case status == http.StatusInternalServerError:
		a.deps.Log.Error("admin request failed", "error", err)
	}
	a.write(w, status, Error{ErrorDetail{Message: message(err), Param: param}})
}

// message says what is wrong, where, and what would be right.
func message(err error) string {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Sprintf("the body is larger than %d bytes, which is the most that is read here", large.Limit)
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrUnknown) { // which say more
		return "the cluster did not answer in time: the change may have been applied; read the epoch before repeating it"
	}
	return err.Error()
}

// refusal is the status of an error and the part of the request that is to blame.
func refusal(err error) (status int, param string) {
	for _, known := range []struct {
		err    error
		status int
	}{
		{ErrNoQuorum, http.StatusServiceUnavailable},
		{ErrUnknown, http.StatusServiceUnavailable},
		{ErrConflict, http.StatusConflict},
		{ErrShrink, http.StatusConflict},
		{errReadOnly, http.StatusNotImplemented},
		{context.DeadlineExceeded, http.StatusGatewayTimeout},
		{routing.ErrUnknownModel, http.StatusNotFound},
		{routing.ErrUnknownEndpoint, http.StatusNotFound},
		{routing.ErrUnknownVariant, http.StatusNotFound},
		{routing.ErrNoEndpoint, http.StatusNotFound},
	} {
		if errors.Is(err, known.err) {
			return known.status, ""
		}
	}
	if e, ok := errors.AsType[*openai.FieldError](err); ok {
		return http.StatusBadRequest, e.Param
	}
	if e, ok := errors.AsType[*sagemaker.ValidationError](err); ok {
		return http.StatusBadRequest, e.Field
	}
	if e, ok := errors.AsType[*strict.Error](err); ok {
		return http.StatusBadRequest, e.Path
	}
	if e, ok := errors.AsType[*notFoundError](err); ok {
		return http.StatusNotFound, e.param
	}
	if e, ok := errors.AsType[*routing.ChangeError](err); ok {
		return http.StatusUnprocessableEntity, e.Path
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, ""
	}
	if e, ok := errors.AsType[*invalidError](err); ok {
		return http.StatusBadRequest, e.param
	}
	return http.StatusInternalServerError, ""
}
