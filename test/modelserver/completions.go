package modelserver

import "encoding/json"

// completionBody is the part of a completion request that matters here.
type completionBody struct {
	options
	Prompt    json.RawMessage `json:"prompt"`
	MaxTokens *int            `json:"max_tokens"`
}

// complete serves POST /v1/completions.
func complete(c *call) error {
	var body completionBody
	if err := decode(c.body, &body); err != nil {
		return err
	}
	prompts, err := promptTokens(body.Prompt, "prompt", c.cfg.BytesPerToken)
	if err != nil {
		return err
	}
	if len(prompts) != 1 {
		return badRequest("prompt", "prompt: this server takes one a request, got %d.", len(prompts))
	}
	g, err := c.generate("cmpl-", ask{
		model: body.Model, salt: body.CacheSalt, prompt: prompts[0], limit: body.MaxTokens,
	})
	if err != nil {
		return err
	}
	defer c.engine.abort(g.sequence)
	return c.answer(g, completionForm{g: g, withUsage: body.StreamOptions.IncludeUsage}, body.Stream)
}

// completionForm is the dialect of completions.
type completionForm struct {
	g         *generation
	withUsage bool // in a chunk of its own at the end of a stream
}

// body returns a whole answer or a chunk of a stream, which look alike here.
func (f completionForm) body(choices []choice, u *wireUsage) completion {
	return completion{
		ID: f.g.id, Object: "text_completion", Created: f.g.created, Model: f.g.model,
		Choices: choices, Usage: u,
	}
}

func (f completionForm) opening() []event { return nil }

func (f completionForm) first() []event { return nil }

func (f completionForm) delta(text string) event {
	return event{data: f.body([]choice{{Text: &text}}, nil)}
}

func (f completionForm) closing(_ string, u usage) []event {
	finish := f.g.finish()
	last := f.body([]choice{{Text: new(string), FinishReason: &finish}}, nil)
	return ending(event{data: last}, event{data: f.body([]choice{}, u.wire())}, f.withUsage)
}

func (f completionForm) whole(text string, u usage) any {
	finish := f.g.finish()
	return f.body([]choice{{Text: &text, FinishReason: &finish}}, u.wire())
}
