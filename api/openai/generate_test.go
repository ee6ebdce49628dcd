package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// object is a JSON object as source text: keys and values in order.
type object []pair

type pair struct{ key, value string }

// writer draws a way to write JSON down: order of keys, white space, escapes.
type writer struct{ t *rapid.T }

func (w writer) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n  "}).Draw(w.t, "space")
}

// quote writes a string down, with some characters escaped that need not be.
func (w writer) quote(s string) string {
	if rapid.Bool().Draw(w.t, "plain") {
		b, _ := json.Marshal(s)
		return string(b)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r < ' ' || r == '"' || r == '\\' || rapid.IntRange(0, 5).Draw(w.t, "escape") == 0:
			if r > 0xFFFF {
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (w writer) object(o object) string {
	o = slices.Clone(o)
	if len(o) > 1 {
		o = rapid.Permutation(o).Draw(w.t, "order")
	}
	return w.ordered(o)
}

func (w writer) ordered(o object) string {
	parts := make([]string, len(o))
	for i, p := range o {
		parts[i] = w.space() + w.quote(p.key) + w.space() + ":" + w.space() + p.value + w.space()
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (w writer) array(values []string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = w.space() + v + w.space()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// source is a generator of request bodies.
type source struct {
	w writer
}

func (g source) pick(n int) int { return rapid.IntRange(0, n-1).Draw(g.w.t, "pick") }

func (g source) words() string {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-z "\\]{0,40}`),
		rapid.SampledFrom([]string{"", "user", "ÿþ", "\u2028", "😀😀", strings.Repeat("long ", 90), strings.Repeat("語", 50)}),
	).Draw(g.w.t, "words")
}

func (g source) string() string { return g.w.quote(g.words()) }

func (g source) list(n int, value func() string) string {
	values := make([]string, g.pick(n+1))
	for i := range values {
		values[i] = value()
	}
	return g.w.array(values)
}

// any draws a JSON value of any type.
func (g source) any(depth int) string {
	n := 7
	if depth == 0 {
		n = 5
	}
	switch g.pick(n) {
	case 0:
		return rapid.SampledFrom([]string{"0", "-1", "12.50", "1e9", "-0.1E-7", "123456789012345678901234567890"}).Draw(g.w.t, "number")
	case 1:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(g.w.t, "word")
	case 5:
		return g.list(3, func() string { return g.any(depth - 1) })
	case 6:
		return g.w.object(g.some(3, func() pair { return pair{g.words(), g.any(depth - 1)} }))
	}
	return g.string()
}

// some draws up to n pairs with different keys.
func (g source) some(n int, draw func() pair) object {
	var o object
	seen := map[string]bool{}
	for range g.pick(n + 1) {
		if p := draw(); !seen[p.key] {
			seen[p.key] = true
			o = append(o, p)
		}
	}
	return o
}

// optional keeps each pair with probability 3/4.
func (g source) optional(o object) object {
	return slices.DeleteFunc(o, func(pair) bool { return g.pick(4) == 0 })
}

func (g source) part(depth int) string {
	switch g.pick(6) {
	case 0:
		return g.string()
	case 1:
		return g.w.object(object{{"type", `"image_url"`}, {"image_url", g.w.object(object{{"url", g.string()}, {"detail", `"low"`}})}})
	case 2:
		if depth > 0 {
			return g.w.object(object{{"type", `"tool_result"`}, {"tool_use_id", g.string()}, {"content", g.content(depth - 1)}})
		}
	case 3:
		return g.w.object(object{{"type", `"tool_use"`}, {"id", g.string()}, {"input", g.any(2)}, {"name", g.string()}})
	case 4:
		return g.w.object(object{{"type", `"thinking"`}, {"thinking", g.string()}, {"signature", g.any(1)}})
	}
	return g.w.object(object{{"type", `"text"`}, {"text", g.string()}, {"cache_control", g.any(1)}})
}

func (g source) content(depth int) string {
	switch g.pick(4) {
	case 0:
		return g.list(3, func() string { return g.part(depth) })
	case 1:
		return "null"
	}
	return g.string()
}

func (g source) message() string {
	return g.w.object(g.optional(object{
		{"role", rapid.SampledFrom([]string{`"user"`, `"system"`, `"assistant"`, `"tool"`}).Draw(g.w.t, "role")},
		{"content", g.content(2)},
		{"name", g.string()},
		{"tool_calls", g.list(2, func() string { return g.any(2) })},
		{"tool_call_id", g.string()},
		{"call_id", g.string()},
		{"arguments", g.string()},
		{"output", g.content(1)},
		{"function_call", g.any(1)},
		{"reasoning_content", g.any(1)},
		{"id", g.any(0)},
	}))
}

func (g source) prompts(objects bool) string {
	id := func() string { return fmt.Sprint(g.pick(100)) }
	switch g.pick(5) {
	case 0:
		return g.list(3, g.string)
	case 1:
		return g.list(5, id)
	case 2:
		return g.list(3, func() string { return g.list(5, id) })
	case 3:
		if objects {
			return g.list(3, func() string { return g.w.object(object{{"text", g.string()}}) })
		}
	}
	return g.string()
}

// fields draws the top-level pairs of a body of kind k.
func (g source) fields(k Kind) object {
	o := object{
		{"model", g.string()},
		{"stream", rapid.SampledFrom([]string{"true", "false", "null"}).Draw(g.w.t, "stream")},
		{"prompt_cache_key", g.string()},
		{"cache_salt", g.string()},
		{"temperature", g.any(0)},
		{"unknown", g.any(3)},
		{"tools", g.list(3, func() string { return g.any(3) })},
	}
	messages := func() string { return g.list(4, g.message) }
	must := object{}
	switch k {
	case Chat:
		o = append(o, pair{"functions", g.list(2, func() string { return g.any(2) })})
		must = object{{"messages", messages()}}
	case Messages:
		o = append(o, pair{"system", g.content(0)})
		must = object{{"messages", messages()}}
	case Responses:
		input := messages
		if g.pick(3) == 0 {
			input = g.string
		}
		o = append(o, pair{"instructions", g.content(0)}, pair{"input", input()})
	case Completions:
		must = object{{"prompt", g.prompts(false)}}
	case Embeddings:
		must = object{{"input", g.prompts(true)}}
	case Rerank:
		o = append(o, pair{"query", g.prompts(true)}, pair{"documents", g.prompts(true)})
	case Score:
		o = append(o, pair{"text_1", g.prompts(true)}, pair{"text_2", g.prompts(true)})
	}
	return append(g.optional(o), must...)
}

// kinds has every kind of body.
var kinds = []Kind{Chat, Completions, Responses, Embeddings, Rerank, Score, Messages}

// body draws a kind and a well-formed body of it.
func body(t *rapid.T) (Kind, []byte) {
	k := rapid.SampledFrom(kinds).Draw(t, "kind")
	g := source{writer{t}}
	return k, []byte(g.w.space() + g.w.object(g.fields(k)) + g.w.space())
}
