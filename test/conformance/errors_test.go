package conformance

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/warmring/warmring/test/modelserver"
)

// wantError fails the test unless err is the SDK's error with that status, with
// a message and a request id. An empty code stands for any.
func wantError(t *testing.T, err error, status int, code string) openai.Error {
	t.Helper()
	api, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("got %v (%T), want the SDK's error with status %d", err, err, status)
	}
	if api.StatusCode != status || api.Message == "" || code != "" && api.Code != code {
		t.Errorf("got status %d, code %q, want %d, %q, and a message: %s", api.StatusCode, api.Code, status, code, api.RawJSON())
	}
	if api.Response.Header.Get("X-Request-Id") == "" {
		t.Error("the answer has no X-Request-Id")
	}
	return *api
}

func TestUnknownModel(t *testing.T) {
	c := start(t)
	for base, code := range map[string]string{
		c.url + "/v1":  "model_not_found",
		c.openai(demo): "", // the server's own answer: the path said who is asked
	} {
		client := connect(base)
		_, err := client.Chat.Completions.New(within(t), ask("nobody", 4))
		if api := wantError(t, err, http.StatusNotFound, code); !strings.Contains(api.Message, "nobody") {
			t.Errorf("%s: the message does not name the model: %s", base, api.Message)
		}
		stream := client.Chat.Completions.NewStreaming(within(t), ask("nobody", 4))
		if stream.Next() {
			t.Errorf("%s: an event: %s", base, stream.Current().RawJSON())
		}
		wantError(t, stream.Err(), http.StatusNotFound, code)
	}
	// As SageMaker says it on its OpenAI route.
	client := connect(c.openai("nobody"))
	_, err := client.Chat.Completions.New(within(t), ask("nobody", 4))
	if api := wantError(t, err, http.StatusBadRequest, "validation_error"); !strings.Contains(api.Message, "nobody") {
		t.Errorf("the message does not name the endpoint: %s", api.Message)
	}
}

func TestBadBodies(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				name  string
				set   option.RequestOption
				param string // how param must begin
			}{
				{"no messages", option.WithJSONSet("messages", []string{}), "messages"},
				{"messages null", option.WithJSONSet("messages", nil), "messages"},
				{"messages a string", option.WithJSONSet("messages", "Why?"), "messages"},
				{"a message a number", option.WithJSONSet("messages.0", 7), "messages"},
				{"content a number", option.WithJSONSet("messages.0.content", 7), "messages"},
				{"no field messages", option.WithJSONDel("messages"), "messages"},
				{"model a number", option.WithJSONSet("model", 7), "model"},
				{"model an object", option.WithJSONSet("model", map[string]int{"a": 1}), "model"},
				{"stream a string", option.WithJSONSet("stream", "yes"), "stream"},
				{"max_tokens a string", option.WithJSONSet("max_tokens", "many"), "max_tokens"},
			} {
				t.Run(test.name, func(t *testing.T) {
					_, err := client.Chat.Completions.New(within(t), ask(demo, 4), test.set)
					if api := wantError(t, err, http.StatusBadRequest, ""); !strings.HasPrefix(api.Param, test.param) {
						t.Errorf("param is %q, want %s: %s", api.Param, test.param, api.RawJSON())
					}
				})
			}
			for name, body := range map[string]string{
				"empty": "", "brace": "{", "cut": `{"model":"demo","messages":[`, "array": "[]", "string": `"demo"`,
				"two": `{"model":"demo","messages":[]}{}`, "nul": "\x00", "utf8": "\xff\xfe", "null": "null",
			} {
				t.Run("malformed "+name, func(t *testing.T) {
					raw := option.WithRequestBody("application/json", io.NopCloser(strings.NewReader(body)))
					_, err := client.Chat.Completions.New(within(t), ask(demo, 4), raw)
					wantError(t, err, http.StatusBadRequest, "")
				})
			}
		})
	}
}

// TestServersError: what a server says of itself reaches the client, its
// headers included.
func TestServersError(t *testing.T) {
	c := start(t)
	client := connect(c.openai(busy))
	_, err := client.Chat.Completions.New(within(t), ask(busy, 4))
	api := wantError(t, err, http.StatusTooManyRequests, "")
	if got := api.Response.Header.Get("Retry-After"); got != busySeconds {
		t.Errorf("Retry-After is %q, the server said %s", got, busySeconds)
	}
	client = connect(c.openai(failing))
	_, err = client.Chat.Completions.New(within(t), ask(failing, 4))
	wantError(t, err, http.StatusInternalServerError, "")
}

// TestServerDies: a stream whose server dies must not look complete. Again and
// again, as the server is the only one and must not be given up.
func TestServerDies(t *testing.T) {
	c := start(t)
	client := connect(c.openai(dying))
	for range 5 {
		stream := client.Chat.Completions.NewStreaming(within(t), ask(dying, 20))
		events := 0
		for stream.Next() {
			events++
		}
		broken, ok := errors.AsType[*ssestream.StreamError](stream.Err())
		if !ok {
			t.Fatalf("after %d events the stream ended with %v (%T), want an error event", events, stream.Err(), stream.Err())
		}
		if events != dyingEvents || len(broken.Event.Data) == 0 {
			t.Errorf("%d events, then %q; the server sent %d", events, broken.Event.Data, dyingEvents)
		}
		other := client.Responses.NewStreaming(within(t), responses.ResponseNewParams{
			Model: dying, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Why is the sky blue?")},
		})
		for other.Next() { // until it breaks
		}
		if _, ok := errors.AsType[*ssestream.StreamError](other.Err()); !ok {
			t.Errorf("the responses stream ended with %v", other.Err())
		}
		if _, err := client.Chat.Completions.New(within(t), ask(dying, 20)); err == nil {
			t.Error("half a body was taken for an answer")
		}
	}
}

// TestTooLarge: a body over the limit is refused in words, not by a reset.
func TestTooLarge(t *testing.T) {
	c := start(t)
	client := connect(c.url + "/v1")
	params := ask(demo, 4)
	params.Messages = append(params.Messages, openai.UserMessage(strings.Repeat("x", 26<<20)))
	_, err := client.Chat.Completions.New(within(t), params)
	if api := wantError(t, err, http.StatusRequestEntityTooLarge, "request_too_large"); !strings.Contains(api.Message, "25MiB") {
		t.Errorf("the message does not name the limit: %s", api.Message)
	}
	for name, client := range c.runtimes() {
		_, err := client.InvokeEndpoint(within(t), &sagemakerruntime.InvokeEndpointInput{
			EndpointName: aws.String(demo), Body: make([]byte, 26<<20),
		})
		if invalid := wantType[*types.ValidationError](t, err, http.StatusBadRequest); !strings.Contains(invalid.ErrorMessage(), "25MiB") {
			t.Errorf("%s: the message does not name the limit: %s", name, invalid.ErrorMessage())
		}
	}
}

// TestServerGone: clients do not notice that one of the servers refuses
// connections.
func TestServerGone(t *testing.T) {
	c := start(t)
	client := connect(c.url + "/v1")
	var head *http.Response
	if _, err := client.Chat.Completions.New(within(t), ask(demo, 4), option.WithResponseInto(&head)); err != nil {
		t.Fatal(err)
	}
	home := head.Header.Get(headerBackend)
	if err := c.servers[home].SetFault(modelserver.Fault{Kind: modelserver.Refuse}); err != nil {
		t.Fatal(err)
	}
	for range 10 { // each would have gone there
		if _, err := client.Chat.Completions.New(within(t), ask(demo, 4), option.WithResponseInto(&head)); err != nil {
			t.Fatal(err)
		}
		if head.Header.Get(headerBackend) == home {
			t.Errorf("an answer from %s, which refuses connections", home)
		}
	}
}
