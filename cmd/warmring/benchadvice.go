package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/warmring/warmring/test/load"
)

// errStopped says that somebody ended a bench before it measured anything.
var errStopped = errors.New("stopped before the first run")

// benchAdvice adds to what the first request met what can be done about it.
func benchAdvice(err error) error {
	var advice string
	status, refused := errors.AsType[*load.StatusError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return errStopped
	case errors.Is(err, load.ErrUnreachable):
		advice = "Is one running there? --url names another; 'warmring demo' starts a cluster to try."
	case errors.Is(err, load.ErrSilent):
		advice = "It takes connections and does not answer: is it loading its model, or overloaded? Its log may tell; --url names another."
	case errors.Is(err, load.ErrTLS):
		advice = "Without TLS a URL begins with http://. The authority that signed the server's certificate must be one of the system's, or in the file that SSL_CERT_FILE names."
	case errors.Is(err, load.ErrEvent):
		advice = "The server's log may say why; --url names another."
	case errors.Is(err, load.ErrDialect):
		advice = "--url must be the base URL of an OpenAI API, such as http://127.0.0.1:8080/v1."
	case errors.Is(err, load.ErrAmbiguous) && refused:
		advice = "Name a model with --model. If that does not help, --url is not the base URL of an OpenAI API."
	case errors.Is(err, load.ErrAmbiguous), errors.Is(err, load.ErrNoModel):
		advice = "Name one with --model."
	case refused:
		advice = statusAdvice(status.Code)
	default:
		return err
	}
	return fmt.Errorf("%w\n%s", err, advice)
}

func statusAdvice(code int) string {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return "The API key is missing or wrong: --api-key-env names the environment variable that holds it."
	case code == http.StatusNotFound:
		return "--url must be the base URL of an OpenAI API, such as http://127.0.0.1:8080/v1, and --model a name that it knows."
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return "The servers are busy or not ready yet: try again in a while."
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return "It must take streamed chats with stream_options.include_usage, as vLLM and OpenAI do."
	case code < http.StatusBadRequest:
		return "If it redirects to somewhere, name that with --url."
	}
	return "The server's log may say why; --url names another."
}
