package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// bodyVariants is how many conversations the clients hold, each with a beginning of its own.
	bodyVariants = 32
	// messageBytes is the length of one message; a longer body holds more messages.
	messageBytes = 2 << 10

	jsonBytes  = 1056 // about what a short chat completion takes
	eventBytes = 170  // about what one token of a stream takes

	// The client tells the server what to answer with these two, and any proxy passes them on.
	eventsField = "x-bench-events"
	pauseField  = "x-bench-pause-us"
	// keyField is what haproxy and nginx hash, in place of the beginning of the text.
	keyField = "x-bench-key"
)

// answer says what the server sends back: a JSON document, or a stream of events.
type answer struct {
	events int // 0 for JSON
	pause  time.Duration
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chat struct {
	Model    string         `json:"model"`
	Messages []message      `json:"messages"`
	Stream   bool           `json:"stream,omitempty"`
	Options  *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// requests builds the complete requests, head and body, one for each conversation.
// Bodies have exactly size bytes.
func requests(size int, want answer) ([][]byte, error) {
	all := make([][]byte, bodyVariants)
	for i := range all {
		body, err := chatBody(i, size, want.events > 0)
		if err != nil {
			return nil, err
		}
		var head strings.Builder
		fmt.Fprintf(&head, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench.local\r\n"+
			"User-Agent: warmring-bench/1\r\nAccept: application/json\r\nAuthorization: Bearer sk-bench\r\n"+
			"Content-Type: application/json\r\n%s: c%02d\r\n", keyField, i)
		if want.events > 0 {
			fmt.Fprintf(&head, "%s: %d\r\n%s: %d\r\n", eventsField, want.events, pauseField, want.pause.Microseconds())
		}
		fmt.Fprintf(&head, "Content-Length: %d\r\n\r\n", len(body))
		all[i] = append([]byte(head.String()), body...)
	}
	return all, nil
}

// chatBody pads the last message until the document has exactly size bytes.
func chatBody(variant, size int, stream bool) ([]byte, error) {
	c := chat{Model: "bench", Stream: stream}
	if stream {
		c.Options = &streamOptions{IncludeUsage: true}
	}
	rng := rand.New(rand.NewPCG(uint64(variant), 7))
	for i := range max(2, size/messageBytes) {
		role := "user"
		switch {
		case i == 0:
			role = "system"
		case i%2 == 0:
			role = "assistant"
		}
		c.Messages = append(c.Messages, message{Role: role, Content: prose(rng, variant, messageBytes-64)})
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	last := &c.Messages[len(c.Messages)-1]
	pad := size - len(raw)
	if pad < 0 {
		if len(last.Content) < -pad {
			return nil, fmt.Errorf("a body of %d bytes is too small", size)
		}
		last.Content = last.Content[:len(last.Content)+pad]
	} else {
		last.Content += strings.Repeat("x", pad)
	}
	return json.Marshal(c)
}

func prose(rng *rand.Rand, variant, size int) string {
	words := strings.Fields("the model server keeps recent beginnings warm so that a request which starts alike is " +
		"answered sooner while other work goes elsewhere and nobody waits for a cold cache again")
	var b strings.Builder
	fmt.Fprintf(&b, "Conversation %d.", variant)
	for b.Len() < size {
		b.WriteByte(' ')
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()[:size]
}

// jsonAnswer is the unary body, jsonBytes long.
func jsonAnswer() []byte {
	const before = `{"id":"chatcmpl-bench","object":"chat.completion","created":1764374400,"model":"bench","choices":[{"index":0,` +
		`"finish_reason":"stop","message":{"role":"assistant","content":"`
	const after = `"}}],"usage":{"prompt_tokens":1024,"completion_tokens":160,"total_tokens":1184,` +
		`"prompt_tokens_details":{"cached_tokens":960}}}`
	return []byte(before + strings.Repeat("a", jsonBytes-len(before)-len(after)) + after)
}

// streamAnswer returns the n events of a stream, the end marker in one piece with the last.
func streamAnswer(n int) [][]byte {
	const before = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764374400,"model":"bench",` +
		`"choices":[{"index":0,"delta":{"content":"`
	const after = `"}}]}` + "\n\n"
	events := make([][]byte, n)
	for i := range events {
		text := strconv.Itoa(i) + " "
		events[i] = []byte(before + text + strings.Repeat("t", eventBytes-len(before)-len(after)-len(text)) + after)
	}
	events[n-1] = append(events[n-1], `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764374400,"model":"bench",`+
		`"choices":[],"usage":{"prompt_tokens":1024,"completion_tokens":160,"total_tokens":1184,`+
		`"prompt_tokens_details":{"cached_tokens":960}}}`+"\n\ndata: [DONE]\n\n"...)
	return events
}
