package sagemaker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/warmring/warmring/routing/proxy"
)

// Error is an error answer in AWS's JSON shape.
type Error struct {
	Status  int    // HTTP
	Type    string // such as ValidationError
	Message string
	Model   *ModelFault // set for a ModelError
}

// ModelFault is what a ModelError tells of the model server's own answer.
type ModelFault struct {
	Status   int    // HTTP; 0 when there was no answer
	Message  string // its body
	Endpoint string
}

// Write sends e and sets the headers by which SDKs tell its type.
func (e *Error) Write(w http.ResponseWriter) error {
	body := map[string]any{"Message": e.Message}
	if m := e.Model; m != nil {
		body["ErrorCode"] = m.code()
		body["OriginalStatusCode"] = m.Status
		body["OriginalMessage"] = m.Message
		body["LogStreamArn"] = "arn:aws:logs:local:" + Account + ":log-group:/aws/sagemaker/Endpoints/" + m.Endpoint
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set(HeaderErrorType, e.Type)
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(e.Status)
	_, err = w.Write(text)
	return err
}

func (m *ModelFault) code() string {
	if m.Status >= 400 && m.Status < 500 {
		return codeClientErrorModel
	}
	return codeServerErrorModel
}

// ModelError is the answer for a model server that did not answer 2xx.
func ModelError(m ModelFault) *Error {
	side := "server"
	if m.Status >= 300 && m.Status < 500 {
		side = "client"
	}
	return &Error{
		Status:  http.StatusFailedDependency,
		Type:    "ModelError",
		Message: fmt.Sprintf("Received %s error (%d) from %s with message %q", side, m.Status, modelContainer, m.Message),
		Model:   &m,
	}
}

// Unreachable is the answer for a model server that gave none.
func Unreachable(endpoint string, err *proxy.UpstreamError) *Error {
	message := "no answer from the model server: " + string(err.Kind)
	if err.Kind == proxy.Timeout {
		message = "the model server did not answer in time"
	}
	return ModelError(ModelFault{Message: message, Endpoint: endpoint})
}

// EndpointNotFound is the service's text for an endpoint that does not exist;
// clients look for it.
func EndpointNotFound(name string) string {
	return fmt.Sprintf("Endpoint %s of account %s not found.", name, Account)
}
