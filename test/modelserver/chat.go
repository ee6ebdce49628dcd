package modelserver

import "encoding/json"

// options are the fields that the generating routes have in common.
type options struct {
	Model         string `json:"model"`
	CacheSalt     string `json:"cache_salt"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// chatBody is the part of a chat request that matters here.
type chatBody struct {
	options
	Messages            []message       `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
}

// wireUsage is OpenAI's usage object of chats, completions and embeddings.
type wireUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// wire returns u as OpenAI's object.
func (u usage) wire() *wireUsage {
	w := &wireUsage{PromptTokens: u.prompt, CompletionTokens: u.made, TotalTokens: u.prompt + u.made}
	w.Details.CachedTokens = u.cached
	return w
}

// chatMessage is an assistant's message, or a piece of it.
type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// choice is one element of choices, for chats and completions. Of Message,
// Delta and Text one is set.
type choice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatMessage `json:"delta,omitempty"`
	Text         *string      `json:"text,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

// completion is the body of a chat or completion, or a chunk of its stream.
type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []choice   `json:"choices"`
	Usage   *wireUsage `json:"usage,omitempty"`
}

// chat serves POST /v1/chat/completions.
func chat(c *call) error {
	var body chatBody
	if err := decode(c.body, &body); err != nil {
		return err
	}
	if len(body.Messages) == 0 {
		return badRequest("messages", "messages: at least one is needed.")
	}
	prompt, err := render(body.Tools, body.Messages, c.cfg.BytesPerToken)
	if err != nil {
		return err
	}
	g, err := c.generate("chatcmpl-", ask{
		model: body.Model, salt: body.CacheSalt, prompt: prompt,
		limit: firstSet(body.MaxCompletionTokens, body.MaxTokens),
	})
	if err != nil {
		return err
	}
	defer c.engine.abort(g.sequence)
	return c.answer(g, chatForm{g: g, withUsage: body.StreamOptions.IncludeUsage}, body.Stream)
}

// chatForm is the dialect of chats.
type chatForm struct {
	g         *generation
	withUsage bool // in a chunk of its own at the end of a stream
}

// chunk returns one event of a stream.
func (f chatForm) chunk(choices []choice, u *wireUsage) event {
	return event{data: completion{
		ID: f.g.id, Object: "chat.completion.chunk", Created: f.g.created, Model: f.g.model,
		Choices: choices, Usage: u,
	}}
}

func (f chatForm) opening() []event { return nil }

func (f chatForm) first() []event {
	return []event{f.chunk([]choice{{Delta: &chatMessage{Role: "assistant", Content: new(string)}}}, nil)}
}

func (f chatForm) delta(text string) event {
	return f.chunk([]choice{{Delta: &chatMessage{Content: &text}}}, nil)
}

func (f chatForm) closing(_ string, u usage) []event {
	finish := f.g.finish()
	return ending(f.chunk([]choice{{Delta: &chatMessage{}, FinishReason: &finish}}, nil),
		f.chunk([]choice{}, u.wire()), f.withUsage)
}

func (f chatForm) whole(text string, u usage) any {
	finish := f.g.finish()
	return completion{
		ID: f.g.id, Object: "chat.completion", Created: f.g.created, Model: f.g.model,
		Choices: []choice{{Message: &chatMessage{Role: "assistant", Content: &text}, FinishReason: &finish}},
		Usage:   u.wire(),
	}
}

// ending returns the last events of a chat or completion.
func ending(last, usage event, withUsage bool) []event {
	done := event{data: rawData("[DONE]")}
	if withUsage {
		return []event{last, usage, done}
	}
	return []event{last, done}
}
