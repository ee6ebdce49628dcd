package modelserver

import (
	"encoding/json"
	"net/http"
)

// responsesBody is the part of a Responses API request that matters here.
type responsesBody struct {
	options
	Instructions       string          `json:"instructions"`
	Input              json.RawMessage `json:"input"`
	Tools              json.RawMessage `json:"tools"`
	MaxOutputTokens    *int            `json:"max_output_tokens"`
	PreviousResponseID string          `json:"previous_response_id"`
}

// messages returns the chat that a request of the Responses API amounts to.
func (b *responsesBody) messages() ([]message, error) {
	var chat []message
	if b.Instructions != "" {
		text, err := json.Marshal(b.Instructions)
		if err != nil {
			return nil, err
		}
		chat = append(chat, message{Role: "system", Content: text})
	}
	var text string
	if json.Unmarshal(b.Input, &text) == nil && string(b.Input) != "null" {
		return append(chat, message{Role: "user", Content: b.Input}), nil
	}
	var items []json.RawMessage
	if json.Unmarshal(b.Input, &items) != nil || len(items) == 0 {
		return nil, badRequest("input", "input must be a string or a list of items.")
	}
	for _, item := range items {
		var m message
		if err := decode(item, &m); err != nil {
			return nil, err
		}
		if m.Role == "" { // a call of a tool, its result, a reference ...
			m = message{Role: "tool", Content: append(append(json.RawMessage("["), item...), ']')}
		}
		chat = append(chat, m)
	}
	return chat, nil
}

// respond serves POST /v1/responses.
func respond(c *call) error {
	var body responsesBody
	if err := decode(c.body, &body); err != nil {
		return err
	}
	if body.PreviousResponseID != "" { // as vLLM without its response store
		return newError(http.StatusNotFound, "previous_response_id", "Response with id '%s' not found.", body.PreviousResponseID)
	}
	messages, err := body.messages()
	if err != nil {
		return err
	}
	prompt, err := render(body.Tools, messages, c.cfg.BytesPerToken)
	if err != nil {
		return err
	}
	g, err := c.generate("resp_", ask{
		model: body.Model, salt: body.CacheSalt, prompt: prompt, limit: body.MaxOutputTokens,
	})
	if err != nil {
		return err
	}
	defer c.engine.abort(g.sequence)
	return c.answer(g, &responseForm{g: g}, body.Stream)
}

// responseForm is the dialect of the Responses API.
type responseForm struct {
	g    *generation
	next int // sequence_number of the next event
}

// fields is a JSON object that is written once.
type fields map[string]any

// event returns a numbered event.
func (f *responseForm) event(name string, more fields) event {
	more["type"] = name
	more["sequence_number"] = f.next
	f.next++
	return event{name: name, data: more}
}

// response returns the response object; u is nil while it is in progress.
func (f *responseForm) response(status string, output []fields, u *usage) fields {
	r := fields{
		"id": f.g.id, "object": "response", "created_at": f.g.created, "model": f.g.model,
		"status": status, "output": output, "error": nil, "incomplete_details": nil,
		"instructions": nil, "metadata": fields{}, "parallel_tool_calls": true,
		"temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": []fields{},
	}
	if u != nil {
		r["usage"] = fields{
			"input_tokens":          u.prompt,
			"input_tokens_details":  fields{"cached_tokens": u.cached},
			"output_tokens":         u.made,
			"output_tokens_details": fields{"reasoning_tokens": 0},
			"total_tokens":          u.prompt + u.made,
		}
	}
	return r
}

// item returns the one output item, a message.
func (f *responseForm) item(status string, content ...fields) fields {
	if content == nil {
		content = []fields{}
	}
	return fields{"id": f.itemID(), "type": "message", "role": "assistant", "status": status, "content": content}
}

func (f *responseForm) itemID() string { return "msg_" + f.g.id }

// text returns the one content part of the item.
func (f *responseForm) text(text string) fields {
	return fields{"type": "output_text", "text": text, "annotations": []fields{}, "logprobs": []fields{}}
}

func (f *responseForm) opening() []event {
	return []event{
		f.event("response.created", fields{"response": f.response("in_progress", []fields{}, nil)}),
		f.event("response.in_progress", fields{"response": f.response("in_progress", []fields{}, nil)}),
	}
}

func (f *responseForm) first() []event {
	return []event{
		f.event("response.output_item.added", fields{"output_index": 0, "item": f.item("in_progress")}),
		f.event("response.content_part.added", f.inPart(fields{"part": f.text("")})),
	}
}

func (f *responseForm) delta(text string) event {
	return f.event("response.output_text.delta", f.inPart(fields{"delta": text, "logprobs": []fields{}}))
}

func (f *responseForm) closing(text string, u usage) []event {
	item := f.item("completed", f.text(text))
	return []event{
		f.event("response.output_text.done", f.inPart(fields{"text": text, "logprobs": []fields{}})),
		f.event("response.content_part.done", f.inPart(fields{"part": f.text(text)})),
		f.event("response.output_item.done", fields{"output_index": 0, "item": item}),
		f.event("response.completed", fields{"response": f.response("completed", []fields{item}, &u)}),
	}
}

func (f *responseForm) whole(text string, u usage) any {
	return f.response("completed", []fields{f.item("completed", f.text(text))}, &u)
}

// inPart adds where the content part is found.
func (f *responseForm) inPart(more fields) fields {
	more["item_id"] = f.itemID()
	more["output_index"] = 0
	more["content_index"] = 0
	return more
}
