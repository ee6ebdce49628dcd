package openai

import "github.com/warmring/warmring/routing/prefix"

// Kind is the shape of a request body.
type Kind uint8

// The kinds of body, named by the last part of the route that takes them.
const (
	Chat Kind = iota // chat/completions
	Completions
	Responses
	Embeddings
	Rerank
	Score
	Messages // messages, of Anthropic's API
)

// Request is what routing needs of a body. The one that a Scanner returns,
// and its text, are valid until the Scanner's next Reset; its strings remain.
type Request struct {
	Model  string // "" when absent
	Tenant string // prompt_cache_key, or cache_salt where that is absent or ""
	Stream bool
	Text   prefix.Text
}

// missing reports that the body has none of the fields that it must have one
// of; present has a bit for the rank of every field of the text that is there.
func (k Kind) missing(present uint16) error {
	var name, what string
	var either uint16
	switch k {
	case Chat, Messages:
		name, what, either = "messages", "an array of messages", 1<<dialogueRank
	case Completions:
		name, what, either = "prompt", "a string or an array", 1<<promptRank|1<<insteadRank
	case Embeddings:
		name, what, either = "input", "a string or an array", 1<<promptRank|1<<insteadRank
	case Responses, Rerank, Score: // a stored prompt, or names that only the engine knows
		return nil
	}
	if present&either != 0 {
		return nil
	}
	return &FieldError{Param: name, Message: "is required and must be " + what}
}
