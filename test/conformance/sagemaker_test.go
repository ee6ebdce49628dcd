package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
)

// runtime returns the AWS SDK's client; only the endpoint's URL is special. It
// does not retry, so that a test sees the first answer.
func runtime(url string, provider aws.CredentialsProvider) *sagemakerruntime.Client {
	return sagemakerruntime.New(sagemakerruntime.Options{
		BaseEndpoint: aws.String(url), Region: "us-west-2", Credentials: provider, Retryer: aws.NopRetryer{}, HTTPClient: carrier{},
	})
}

// carrier is an HTTP client that hides that a request's body has a WriteTo.
// With smithy-go v1.28.9 that method fails with io.EOF after Close, which the
// SDK calls when the answer's head is there. A server on the same machine can
// answer before net/http has looked for more of the body than its length says;
// net/http then takes the EOF for a failed request and closes the connection
// under the answer.
type carrier struct{}

func (carrier) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return http.DefaultClient.Do(r)
}

// runtimes are a client that signs and one that does not.
func (c *cluster) runtimes() map[string]*sagemakerruntime.Client {
	return map[string]*sagemakerruntime.Client{
		"signed":    runtime(c.url, credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "")),
		"anonymous": runtime(c.url, aws.AnonymousCredentials{}),
	}
}

// invocation is the body of a chat.
func invocation(stream bool) []byte {
	return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"Why is the sky blue?"}],"max_tokens":6,"stream":%v}`, stream)
}

// openStream invokes an endpoint and returns all parts of the answer and the
// error that ended it.
func openStream(t *testing.T, client *sagemakerruntime.Client, endpoint string) (parts [][]byte, err error) {
	t.Helper()
	out, err := client.InvokeEndpointWithResponseStream(within(t), &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String(endpoint), ContentType: aws.String("application/json"), Body: invocation(true),
	})
	if err != nil {
		return nil, err
	}
	if got := aws.ToString(out.ContentType); !strings.HasPrefix(got, "text/event-stream") {
		t.Errorf("content type of the answer: %q", got)
	}
	stream := out.GetStream()
	defer func() { _ = stream.Close() }() // it was read to its end
	for event := range stream.Events() {
		part, ok := event.(*types.ResponseStreamMemberPayloadPart)
		if !ok {
			t.Fatalf("an event of type %T", event)
		}
		parts = append(parts, part.Value.Bytes)
	}
	return parts, stream.Err()
}

// wantType fails the test unless err is an error of type T with that status.
func wantType[T error](t *testing.T, err error, status int) T {
	t.Helper()
	typed, ok := errors.AsType[T](err)
	if !ok {
		t.Fatalf("got %v, want a %T", err, typed)
	}
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || response.HTTPStatusCode() != status {
		t.Errorf("got %v, want status %d", err, status)
	}
	return typed
}

func TestInvokeEndpoint(t *testing.T) {
	for name, client := range start(t).runtimes() {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []*string{nil, aws.String("application/json")} {
				out, err := client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{
					EndpointName: aws.String(demo), ContentType: kind, Body: invocation(false),
				})
				if err != nil {
					t.Fatal(err)
				}
				var chat struct {
					Usage struct {
						Completion int `json:"completion_tokens"`
					} `json:"usage"`
				}
				if err := json.Unmarshal(out.Body, &chat); err != nil || chat.Usage.Completion != 6 {
					t.Errorf("answer: %s (%v)", out.Body, err)
				}
				if aws.ToString(out.ContentType) != "application/json" || aws.ToString(out.InvokedProductionVariant) != "main" {
					t.Errorf("content type %q, variant %q", aws.ToString(out.ContentType), aws.ToString(out.InvokedProductionVariant))
				}
			}
		})
	}
}

// TestInvokeEndpointStream: the parts together are what the server would have
// sent an OpenAI client.
func TestInvokeEndpointStream(t *testing.T) {
	for name, client := range start(t).runtimes() {
		t.Run(name, func(t *testing.T) {
			parts, err := openStream(t, client, demo)
			if err != nil {
				t.Fatal(err)
			}
			events := strings.Split(strings.TrimSuffix(string(bytes.Join(parts, nil)), "\n\n"), "\n\n")
			if len(parts) < 2 || len(events) < 8 || events[len(events)-1] != "data: [DONE]" {
				t.Errorf("%d parts with the events %q", len(parts), events)
			}
		})
	}
}

func TestInvokeUnknownEndpoint(t *testing.T) {
	for name, client := range start(t).runtimes() {
		t.Run(name, func(t *testing.T) {
			_, err := client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{
				EndpointName: aws.String("nobody"), Body: invocation(false),
			})
			invalid := wantType[*types.ValidationError](t, err, http.StatusBadRequest)
			if !strings.Contains(invalid.ErrorMessage(), "Endpoint nobody") {
				t.Errorf("the message does not name the endpoint: %s", invalid.ErrorMessage())
			}
			_, err = openStream(t, client, "nobody")
			_ = wantType[*types.ValidationError](t, err, http.StatusBadRequest)
		})
	}
}

// TestModelError: a server's error is quoted, with the status it had.
func TestModelError(t *testing.T) {
	for name, client := range start(t).runtimes() {
		t.Run(name, func(t *testing.T) {
			for endpoint, status := range map[string]int32{busy: http.StatusTooManyRequests, failing: http.StatusInternalServerError} {
				_, unary := client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{
					EndpointName: aws.String(endpoint), Body: invocation(false),
				})
				_, streamed := openStream(t, client, endpoint)
				for _, err := range []error{unary, streamed} {
					fault := wantType[*types.ModelError](t, err, http.StatusFailedDependency)
					if aws.ToInt32(fault.OriginalStatusCode) != status || !strings.Contains(aws.ToString(fault.OriginalMessage), "(fault)") {
						t.Errorf("%s: original status %d, message %q", endpoint, aws.ToInt32(fault.OriginalStatusCode), aws.ToString(fault.OriginalMessage))
					}
				}
			}
			_, err := client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{EndpointName: aws.String(demo), Body: []byte("{")})
			fault := wantType[*types.ModelError](t, err, http.StatusFailedDependency)
			if got := aws.ToInt32(fault.OriginalStatusCode); got != http.StatusBadRequest {
				t.Errorf("malformed JSON: original status %d", got)
			}
		})
	}
}

// TestModelStreamError: a stream whose server dies ends with an exception; the
// SDK would take the mere end of the connection for success.
func TestModelStreamError(t *testing.T) {
	for name, client := range start(t).runtimes() {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				parts, err := openStream(t, client, dying)
				broken, ok := errors.AsType[*types.ModelStreamError](err)
				if !ok {
					t.Fatalf("the stream ended with %v, want a ModelStreamError", err)
				}
				if got := bytes.Count(bytes.Join(parts, nil), []byte("\n\n")); got != dyingEvents {
					t.Errorf("%d events, then the error; the server sent %d", got, dyingEvents)
				}
				if got := aws.ToString(broken.ErrorCode_); got != "StreamBroken" {
					t.Errorf("code of the error: %q", got)
				}
			}
		})
	}
}

// TestInvokeAffinity: bodies that begin alike, with the same PrefixAwareId,
// land on the server that has the beginning in its cache.
func TestInvokeAffinity(t *testing.T) {
	c := start(t)
	for name, client := range c.runtimes() {
		t.Run(name, func(t *testing.T) {
			before := c.received()
			for _, question := range []string{"Why is the sky blue?", "How deep is the sea?", "Who wrote this?"} {
				body, err := json.Marshal(map[string]any{
					"prompt": strings.Repeat(t.Name()+" answers in verse. ", 300) + question, "max_tokens": 4,
				})
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{
					EndpointName: aws.String(demo), Body: body, PrefixAwareId: aws.String("verses"),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			asked := map[int]int{} // requests that a server got: how many servers
			for address, n := range c.received() {
				asked[n-before[address]]++
			}
			if want := map[int]int{3: 1, 0: len(c.servers) - 1}; !cmp.Equal(asked, want) {
				t.Errorf("servers by requests: %v, want %v", asked, want)
			}
		})
	}
}

// received counts the requests that each server got.
func (c *cluster) received() map[string]int {
	all := map[string]int{}
	for address, s := range c.servers {
		all[address] = s.Stats().Requests
	}
	return all
}
