package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// apiError is an error for the client, in vLLM's shape: the OpenAI envelope
// with the HTTP status as its code.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// Error implements error.
func (e *apiError) Error() string { return e.Message }

// newError returns an error with vLLM's type for that status. An empty param
// means that no single field is to blame.
func newError(status int, param, format string, args ...any) *apiError {
	e := &apiError{Message: fmt.Sprintf(format, args...), Type: errorType(status), Code: status}
	if param != "" {
		e.Param = &param
	}
	return e
}

// badRequest is newError with status 400.
func badRequest(param, format string, args ...any) *apiError {
	return newError(http.StatusBadRequest, param, format, args...)
}

// errorType returns the type that vLLM gives errors of that status.
func errorType(status int) string {
	switch status {
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusTooManyRequests:
		return "RateLimitError"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	}
	if status >= http.StatusInternalServerError {
		return "InternalServerError"
	}
	return "BadRequestError"
}

// asAPIError translates what the engine or the reader of a body reports; nil
// when there is nothing to tell, because the client or the engine is gone.
func asAPIError(err error) *apiError {
	var api *apiError
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &size):
		return newError(http.StatusRequestEntityTooLarge, "", "The request body is over %d bytes.", size.Limit)
	case errors.Is(err, errFull):
		return newError(http.StatusServiceUnavailable, "", "%s", err)
	default:
		return nil
	}
}

// decode parses a body into v and turns each failure into a 400.
func decode(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var field *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &field):
		return badRequest(field.Field, "%s: a JSON %s is not what is expected here.", field.Field, field.Value)
	default:
		return badRequest("", "The body is not valid JSON: %s", err)
	}
}
