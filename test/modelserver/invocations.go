package modelserver

import "encoding/json"

// invoke serves POST /invocations, the one route of a SageMaker container: like
// vLLM it finds out from the body what is asked for.
func invoke(c *call) error {
	var shape map[string]json.RawMessage
	if err := decode(c.body, &shape); err != nil {
		return err
	}
	// SageMaker names a LoRA adapter in a header; it outranks the body's model.
	if adapter := c.r.Header.Get("X-Amzn-SageMaker-Adapter-Identifier"); adapter != "" {
		var err error
		if shape["model"], err = json.Marshal(adapter); err != nil {
			return err
		}
		if c.body, err = json.Marshal(shape); err != nil {
			return err
		}
	}
	switch {
	case shape["messages"] != nil:
		return chat(c)
	case shape["prompt"] != nil:
		return complete(c)
	case shape["input"] != nil:
		return embed(c)
	default:
		return badRequest("", "The body has neither messages, nor prompt, nor input.")
	}
}

// tokenize serves POST /tokenize for a prompt or a chat.
func tokenize(c *call) error {
	var body struct {
		Model    string          `json:"model"`
		Prompt   json.RawMessage `json:"prompt"`
		Messages []message       `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	if err := decode(c.body, &body); err != nil {
		return err
	}
	if _, err := c.resolve(body.Model); err != nil {
		return err
	}
	if body.Messages != nil {
		tokens, err := render(body.Tools, body.Messages, c.cfg.BytesPerToken)
		if err != nil {
			return err
		}
		return c.replyTokens(tokens)
	}
	prompts, err := promptTokens(body.Prompt, "prompt", c.cfg.BytesPerToken)
	if err != nil {
		return err
	}
	if len(prompts) != 1 {
		return badRequest("prompt", "prompt: one a request, got %d.", len(prompts))
	}
	return c.replyTokens(prompts[0])
}

// replyTokens answers a tokenize request.
func (c *call) replyTokens(tokens []token) error {
	return c.reply(fields{"count": len(tokens), "max_model_len": c.cfg.MaxContext, "tokens": tokens})
}
