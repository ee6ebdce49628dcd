package conformance

import (
	"encoding/base64"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// connect returns the SDK's client; only the base URL is special. It does not
// retry, so that a test sees the first answer.
func connect(base string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("any"), option.WithMaxRetries(0))
}

// clients are a client for each way to name the endpoint demo: by the body's
// model, and by the path.
func (c *cluster) clients() map[string]openai.Client {
	return map[string]openai.Client{"model": connect(c.url + "/v1"), "path": connect(c.openai(demo))}
}

// ask is a chat of one question with an answer of max tokens.
func ask(model string, maxTokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Why is the sky blue?")},
		MaxTokens: openai.Int(maxTokens),
	}
}

func TestChat(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			whole, err := client.Chat.Completions.New(within(t), ask(demo, 9))
			if err != nil {
				t.Fatal(err)
			}
			choice := whole.Choices[0]
			if choice.Message.Content == "" || choice.FinishReason != "length" || whole.Usage.CompletionTokens != 9 {
				t.Errorf("whole answer: %s", whole.RawJSON())
			}
			for _, usage := range []bool{false, true} {
				params := ask(demo, 9)
				if usage {
					params.StreamOptions.IncludeUsage = openai.Bool(true)
				}
				var all openai.ChatCompletionAccumulator
				events := 0
				stream := client.Chat.Completions.NewStreaming(within(t), params)
				for stream.Next() {
					events++
					if !all.AddChunk(stream.Current()) {
						t.Errorf("the chunk does not fit those before: %s", stream.Current().RawJSON())
					}
				}
				if err := stream.Err(); err != nil {
					t.Fatal(err)
				}
				if len(all.Choices) != 1 || all.Choices[0].Message.Content != choice.Message.Content {
					t.Errorf("the stream says %+v, the whole answer %q", all.Choices, choice.Message.Content)
				}
				if got := all.Usage.CompletionTokens; usage != (got == 9) {
					t.Errorf("include_usage %v: %d completion tokens", usage, got)
				}
				if events < 9 {
					t.Errorf("%d events for 9 tokens", events)
				}
			}
		})
	}
}

func TestCompletions(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			params := openai.CompletionNewParams{
				Model:     demo,
				Prompt:    openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
				MaxTokens: openai.Int(7),
			}
			whole, err := client.Completions.New(within(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if whole.Choices[0].Text == "" || whole.Usage.CompletionTokens != 7 {
				t.Errorf("whole answer: %s", whole.RawJSON())
			}
			var text strings.Builder
			stream := client.Completions.NewStreaming(within(t), params)
			for stream.Next() {
				text.WriteString(stream.Current().Choices[0].Text)
			}
			if stream.Err() != nil || text.String() != whole.Choices[0].Text {
				t.Errorf("the stream says %q (%v), the whole answer %q", text.String(), stream.Err(), whole.Choices[0].Text)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			params := responses.ResponseNewParams{
				Model:           demo,
				Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String("Why is the sky blue?")},
				MaxOutputTokens: openai.Int(8),
			}
			whole, err := client.Responses.New(within(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if whole.OutputText() == "" || whole.Usage.OutputTokens != 8 {
				t.Errorf("whole answer: %s", whole.RawJSON())
			}
			var text strings.Builder
			var last responses.ResponseStreamEventUnion
			stream := client.Responses.NewStreaming(within(t), params)
			for n := int64(0); stream.Next(); n++ {
				last = stream.Current()
				if last.SequenceNumber != n {
					t.Errorf("event %d has number %d", n, last.SequenceNumber)
				}
				if last.Type == "response.output_text.delta" {
					text.WriteString(last.Delta)
				}
			}
			if stream.Err() != nil || text.String() != whole.OutputText() {
				t.Errorf("the stream says %q (%v), the whole answer %q", text.String(), stream.Err(), whole.OutputText())
			}
			if last.Response.Usage.OutputTokens != 8 {
				t.Errorf("last event: %s", last.RawJSON())
			}
		})
	}
}

func TestEmbeddings(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			params := openai.EmbeddingNewParams{
				Model: demo,
				Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
			}
			floats, err := client.Embeddings.New(within(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if len(floats.Data) != 2 || floats.Usage.PromptTokens == 0 {
				t.Errorf("answer: %s", floats.RawJSON())
			}
			var coded struct {
				Data []struct {
					Embedding string `json:"embedding"`
				} `json:"data"`
			}
			params.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
			if _, err := client.Embeddings.New(within(t), params, option.WithResponseBodyInto(&coded)); err != nil {
				t.Fatal(err)
			}
			for i, d := range coded.Data {
				raw, err := base64.StdEncoding.DecodeString(d.Embedding)
				if err != nil || len(raw) != 4*len(floats.Data[i].Embedding) {
					t.Fatalf("embedding %d: %d bytes for %d floats (%v)", i, len(raw), len(floats.Data[i].Embedding), err)
				}
				first := math.Float32frombits(uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24)
				if math.Abs(float64(first)-floats.Data[i].Embedding[0]) > 1e-6 {
					t.Errorf("embedding %d begins with %v in base64, %v in floats", i, first, floats.Data[i].Embedding[0])
				}
			}
		})
	}
}

func TestModels(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			found := false
			models := client.Models.ListAutoPaging(within(t))
			for models.Next() {
				found = found || models.Current().ID == demo
			}
			if models.Err() != nil || !found {
				t.Errorf("the list has demo: %v (%v)", found, models.Err())
			}
			if one, err := client.Models.Get(within(t), demo); err != nil || one.ID != demo {
				t.Errorf("demo: %+v (%v)", one, err)
			}
			_, err := client.Models.Get(within(t), "nobody")
			wantError(t, err, http.StatusNotFound, "")
		})
	}
}

// TestPrefixAffinity: requests that begin alike land on the server that has the
// beginning in its cache.
func TestPrefixAffinity(t *testing.T) {
	for name, client := range start(t).clients() {
		t.Run(name, func(t *testing.T) {
			system := openai.SystemMessage(strings.Repeat(t.Name()+" answers in verse. ", 200))
			home := ""
			for i, question := range []string{"Why is the sky blue?", "How deep is the sea?", "Who wrote this?"} {
				params := ask(demo, 4)
				params.Messages = []openai.ChatCompletionMessageParamUnion{system, openai.UserMessage(question)}
				var head *http.Response
				chat, err := client.Chat.Completions.New(within(t), params, option.WithResponseInto(&head))
				if err != nil {
					t.Fatal(err)
				}
				backend := head.Header.Get(headerBackend)
				if i == 0 {
					home = backend
					continue
				}
				if backend == "" || backend != home {
					t.Errorf("request %d went to %q, the first to %q", i, backend, home)
				}
				if cached, prompt := chat.Usage.PromptTokensDetails.CachedTokens, chat.Usage.PromptTokens; cached*10 < prompt*9 {
					t.Errorf("request %d: %d of %d prompt tokens were cached", i, cached, prompt)
				}
			}
		})
	}
}
