package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
)

// ErrUnreachable says that nothing answers as a server does.
var ErrUnreachable = errors.New("no server answers")

// ErrAmbiguous says that a target has no model's name and its server has none or several.
var ErrAmbiguous = errors.New("one must be named")

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
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return "connection failed"
}

// advise says what to do about the error of a first request.
func advise(err error, base string) error {
	var status *StatusError
	if !errors.As(err, &status) {
		if errors.Is(err, ErrBroken) || errors.Is(err, ErrEvent) {
			return fmt.Errorf("%s does not stream chats as OpenAI does: %w", base, err)
		}
		return fmt.Errorf("%w at %s: %w; is one running there?", ErrUnreachable, base, cause(err))
	}
	hint := ""
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = "; the API key is missing or wrong"
	case http.StatusNotFound:
		hint = "; is it the base URL of an OpenAI API, and the model's name right?"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		hint = "; the servers are busy or not ready yet: try again later"
	}
	return fmt.Errorf("%s %w%s", base, err, hint)
}

// cause leaves out what net/http puts around an error: the URL, which is told anyway.
func cause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
