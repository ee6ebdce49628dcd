package openai

// rule says how a value is read.
type rule uint8

const (
	ignored rule = iota // passed over, not judged

	// Settings: no part of the text.
	modelName // string
	cacheKey  // string: prompt_cache_key
	cacheSalt // string: cache_salt
	streaming // true or false

	// Text.
	definitions // array, as compact JSON; a message of its own for Ends
	dialogue    // array of messages
	items       // string, which is a user message, or array of messages
	system      // content of a system message
	prompts     // string, array of strings, of token ids or of arrays of ids
	documents   // like prompts; or objects, as compact JSON
	plainText   // string
	content     // string or array of parts
	output      // like content; or an object, as compact JSON
	calls       // array, as compact JSON
	anything    // any value, as compact JSON
	rest        // any value, by a digest of all values of the rest

	// Elements of arrays.
	message      // object
	part         // object, or string: the text of a part
	promptValue  // element of prompts
	documentItem // element of documents
	tokenID      // number
)

// Ranks that are needed by name.
const (
	roleRank     = 0
	contentRank  = 1
	dialogueRank = 3
	promptRank   = 0
	insteadRank  = 1 // what some engines take instead of a prompt
	restRank     = 7 // of what has no rank of its own
	settingRank  = 8 // of the first that is no segment
)

// field is a known key of an object.
type field struct {
	name string
	rule rule
	rank uint8 // its place in the canonical order; its bit among the keys seen
	tag  byte  // the letter of its framing; 0: none
}

// topField returns the field of a top-level key.
func (k Kind) topField(key []byte) field {
	switch string(key) {
	case "model":
		return field{"model", modelName, 8, 0}
	case "prompt_cache_key":
		return field{"prompt_cache_key", cacheKey, 9, 0}
	case "cache_salt":
		return field{"cache_salt", cacheSalt, 10, 0}
	case "stream":
		return field{"stream", streaming, 11, 0}
	}
	switch k {
	case Chat, Messages, Responses:
		return k.chatField(key)
	case Completions, Embeddings:
		return k.promptField(key)
	case Rerank, Score:
		return k.pairField(key)
	}
	return field{}
}

func (k Kind) chatField(key []byte) field {
	switch string(key) {
	case "tools":
		return field{"tools", definitions, 0, 'T'}
	case "functions":
		if k == Chat {
			return field{"functions", definitions, 1, 'F'}
		}
	case "system":
		if k == Messages {
			return field{"system", system, 2, 0}
		}
	case "instructions":
		if k == Responses {
			return field{"instructions", system, 2, 0}
		}
	case "messages":
		if k != Responses {
			return field{"messages", dialogue, dialogueRank, 0}
		}
	case "input":
		if k == Responses {
			return field{"input", items, dialogueRank, 0}
		}
	}
	return field{}
}

func (k Kind) promptField(key []byte) field {
	switch string(key) {
	case "prompt":
		if k == Completions {
			return field{"prompt", prompts, promptRank, 0}
		}
	case "prompt_embeds": // vLLM's alternative to prompt
		if k == Completions {
			return field{"prompt_embeds", anything, insteadRank, 'E'}
		}
	case "input":
		if k == Embeddings {
			return field{"input", documents, promptRank, 0} // objects are SGLang's, with text and image
		}
	case "messages": // vLLM's alternative to input
		if k == Embeddings {
			return field{"messages", dialogue, insteadRank, 0}
		}
	}
	return field{}
}

func (k Kind) pairField(key []byte) field {
	switch string(key) {
	case "query":
		if k == Rerank {
			return field{"query", documents, 0, 'Q'}
		}
	case "documents":
		if k == Rerank {
			return field{"documents", documents, 1, 'D'}
		}
	case "text_1":
		if k == Score {
			return field{"text_1", documents, 0, 'Q'}
		}
	case "text_2":
		if k == Score {
			return field{"text_2", documents, 1, 'D'}
		}
	}
	return field{}
}

// messageField returns the field of a key of a message, or of an item of a
// Responses input.
func (k Kind) messageField(key []byte) field {
	switch string(key) {
	case "role":
		return field{"role", plainText, roleRank, 'r'}
	case "content":
		return field{"content", content, contentRank, 'c'}
	case "name":
		return field{"name", plainText, 3, 'n'}
	}
	if k != Responses {
		switch string(key) {
		case "tool_calls":
			return field{"tool_calls", calls, 4, 't'}
		case "function_call":
			return field{"function_call", anything, 5, 'a'}
		case "tool_call_id":
			return field{"tool_call_id", plainText, 6, 'i'}
		}
		return field{}
	}
	switch string(key) {
	case "output":
		return field{"output", output, 2, 'o'}
	case "arguments":
		return field{"arguments", plainText, 5, 'a'}
	case "call_id":
		return field{"call_id", plainText, 6, 'i'}
	case "type", "id", "status", "summary", "encrypted_content":
		return field{}
	}
	return field{"", rest, restRank, 'x'}
}

// partField returns the field of a key of a content part. A nested part is one
// of a tool result, which has no parts that are read.
func partField(key []byte, nested bool) field {
	switch string(key) {
	case "text", "refusal":
		return field{"text", plainText, 0, 0}
	case "content": // of a tool result
		if !nested {
			return field{"content", output, contentRank, 'c'}
		}
	case "input": // of a tool use
		return field{"input", anything, 2, 'j'}
	case "type", "cache_control", "prompt_cache_breakpoint", "annotations",
		"logprobs", "citations", "thinking", "signature":
		return field{}
	}
	return field{"", rest, restRank, 'x'}
}
