package mstest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// fast is a server a hundred times as fast as the default.
func fast() modelserver.Config {
	cfg := modelserver.Default()
	cfg.Speed = 100
	return cfg
}

// dial returns the official client of a server.
func dial(t *testing.T, s *mstest.Running) openai.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(&http.Client{Transport: transport}))
}

// question is a chat request of more than 1,000 tokens.
func question(n int) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "demo",
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(strings.Repeat("You are told something here. ", 150)),
			openai.UserMessage(fmt.Sprintf("Question %d?", n)),
		},
		MaxCompletionTokens: openai.Int(40),
	}
}

func TestSDKChat(t *testing.T) {
	client := dial(t, mstest.Start(t, fast()))
	q := question(1)
	first, err := client.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	u := first.Usage
	if u.CompletionTokens != 40 || u.PromptTokens < 1000 || u.TotalTokens != u.PromptTokens+40 || u.PromptTokensDetails.CachedTokens != 0 {
		t.Errorf("usage of a cold prompt: %s", u.RawJSON())
	}
	answer := first.Choices[0].Message
	if len(answer.Content) != 160 || answer.Role != "assistant" || first.Choices[0].FinishReason != "length" {
		t.Errorf("answer: %s", first.RawJSON())
	}

	// The next turn finds prompt and answer in the cache.
	q.Messages = append(q.Messages, answer.ToParam(), openai.UserMessage("And then?"))
	next, err := client.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	known := u.PromptTokens + 39
	if got, want := next.Usage.PromptTokensDetails.CachedTokens, known/16*16; got != want {
		t.Errorf("%d tokens cached in the second turn, want %d", got, want)
	}
}

func TestSDKChatStream(t *testing.T) {
	client := dial(t, mstest.Start(t, fast()))
	q := question(1)
	whole, err := client.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), q)
	var acc openai.ChatCompletionAccumulator
	deltas := 0
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Fatalf("the client refuses the chunk %s", chunk.RawJSON())
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			deltas++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := acc.Choices[0].Message.Content, whole.Choices[0].Message.Content; got != want || deltas != 40 {
		t.Errorf("%d deltas make %q, want 40 and %q", deltas, got, want)
	}
	if acc.Usage.PromptTokensDetails.CachedTokens == 0 || acc.Usage.CompletionTokens != 40 {
		t.Errorf("usage of a warm stream: %+v", acc.Usage)
	}
}

func TestSDKCompletions(t *testing.T) {
	client := dial(t, mstest.Start(t, fast()))
	q := openai.CompletionNewParams{
		Model:     "demo",
		Prompt:    openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
		MaxTokens: openai.Int(8),
	}
	whole, err := client.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Usage.PromptTokens != 4 || len(whole.Choices[0].Text) != 32 {
		t.Errorf("answer: %s", whole.RawJSON())
	}
	stream := client.Completions.NewStreaming(t.Context(), q)
	var text string
	for stream.Next() {
		text += stream.Current().Choices[0].Text
	}
	if err := stream.Err(); err != nil || text != whole.Choices[0].Text {
		t.Errorf("stream makes %q (%v), want %q", text, err, whole.Choices[0].Text)
	}
}

func TestSDKResponses(t *testing.T) {
	client := dial(t, mstest.Start(t, fast()))
	q := responses.ResponseNewParams{
		Model:           "demo",
		Instructions:    openai.String(strings.Repeat("Be brief. ", 100)),
		Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")},
		MaxOutputTokens: openai.Int(12),
	}
	whole, err := client.Responses.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Status != "completed" || len(whole.OutputText()) != 48 || whole.Usage.OutputTokens != 12 {
		t.Errorf("response: %s", whole.RawJSON())
	}
	stream := client.Responses.NewStreaming(t.Context(), q)
	var text string
	var names []string
	for n := int64(0); stream.Next(); n++ {
		e := stream.Current()
		if e.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, e.SequenceNumber)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
			continue
		}
		names = append(names, strings.TrimPrefix(e.Type, "response."))
		if e.Type == "response.completed" && e.Response.Usage.InputTokensDetails.CachedTokens < 240 {
			t.Errorf("usage of a warm response: %s", e.Response.Usage.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	want := "created in_progress output_item.added content_part.added output_text.done content_part.done output_item.done completed"
	if got := strings.Join(names, " "); got != want || text != whole.OutputText() {
		t.Errorf("events %s with text %q,\nwant %s and %q", got, text, want, whole.OutputText())
	}
}

func TestSDKEmbeddings(t *testing.T) {
	client := dial(t, mstest.Start(t, fast()))
	q := openai.EmbeddingNewParams{
		Model:      "demo",
		Input:      openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one text", "another"}},
		Dimensions: openai.Int(3),
	}
	got, err := client.Embeddings.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != 2 || len(got.Data[0].Embedding) != 3 || got.Usage.PromptTokens != 4 {
		t.Errorf("embeddings: %s", got.RawJSON())
	}
	var square float64
	for _, x := range got.Data[1].Embedding {
		square += x * x
	}
	if square < 0.999 || square > 1.001 {
		t.Errorf("the vector's length is not 1 but the root of %v", square)
	}
}

func TestSDKModelsAndErrors(t *testing.T) {
	cfg := fast()
	cfg.Adapters = []string{"demo-lora"}
	client := dial(t, mstest.Start(t, cfg))
	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 2 || models.Data[1].ID != "demo-lora" {
		t.Errorf("models: %+v, %v", models, err)
	}
	q := question(1)
	q.Model = "nobody"
	_, err = client.Chat.Completions.New(t.Context(), q)
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != http.StatusNotFound || api.Param != "model" || api.Type != "NotFoundError" {
		t.Errorf("an unknown model gives %v", err)
	}
}
