package modelserver

import (
	"bytes"
	"encoding/json"
	"math"
)

// message is one turn of a chat.
type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// part is one piece of a message's content.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// render returns the tokens of a chat: tools first, then the messages, then the
// mark after which the assistant answers. A chat that goes on, with the answer
// sent back as a message, therefore begins with the tokens of prompt and answer.
func render(tools json.RawMessage, messages []message, size int) ([]token, error) {
	var out []token
	if text := compact(tools); text != "" && text != "null" && text != "[]" {
		out = append(out, tokenTools)
		out = append(encode(out, text, size), tokenEnd)
	}
	for _, m := range messages {
		text, err := flatten(m.Content)
		if err != nil {
			return nil, err
		}
		out = append(out, roleToken(m.Role))
		out = encode(out, text, size)
		out = encode(out, compact(m.ToolCalls), size)
		out = append(out, tokenEnd)
	}
	return append(out, tokenAssistant), nil
}

// roleToken returns the mark that begins a message of that role.
func roleToken(role string) token {
	switch role {
	case "system", "developer":
		return tokenSystem
	case "user":
		return tokenUser
	case "assistant":
		return tokenAssistant
	case "tool", "function":
		return tokenTool
	default:
		return tokenOther
	}
}

// flatten returns the text of a message's content, which is a string, a list of
// parts or absent. Parts other than text (images, audio) stand as their JSON.
func flatten(content json.RawMessage) (string, error) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		return "", badRequest("messages", "A message's content must be a string or a list of parts.")
	}
	var out []byte
	for _, raw := range parts {
		var p part
		if err := decode(raw, &p); err != nil {
			return "", err
		}
		if p.Text != "" {
			out = append(out, p.Text...)
		} else {
			out = append(out, compact(raw)...)
		}
	}
	return string(out), nil
}

// compact returns raw without insignificant space; raw has been parsed before.
func compact(raw json.RawMessage) string {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return ""
	}
	return buf.String()
}

// promptTokens reads a prompt that is a string or a list of token ids, or a
// list of such prompts.
func promptTokens(raw json.RawMessage, param string, size int) ([][]token, error) {
	var text string
	var ids []int64
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
		return [][]token{encode(nil, text, size)}, nil
	case json.Unmarshal(raw, &list) != nil || len(list) == 0:
		return nil, badRequest(param, "%s must be a string, token ids, or a list of such.", param)
	case json.Unmarshal(raw, &ids) == nil:
		tokens, err := fromIDs(ids, param)
		return [][]token{tokens}, err
	}
	all := make([][]token, 0, len(list))
	for _, one := range list {
		if json.Unmarshal(one, &text) == nil && string(one) != "null" {
			all = append(all, encode(nil, text, size))
			continue
		}
		if json.Unmarshal(one, &ids) != nil {
			return nil, badRequest(param, "%s must hold strings or lists of token ids.", param)
		}
		tokens, err := fromIDs(ids, param)
		if err != nil {
			return nil, err
		}
		all = append(all, tokens)
	}
	return all, nil
}

// fromIDs converts token ids that a client sent.
func fromIDs(ids []int64, param string) ([]token, error) {
	tokens := make([]token, len(ids))
	for i, id := range ids {
		if id < 0 || id > math.MaxUint32 {
			return nil, badRequest(param, "%s: the token id %d is out of range.", param, id)
		}
		tokens[i] = token(id)
	}
	return tokens, nil
}
