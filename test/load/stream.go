package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 1 << 20

// ErrBroken is a stream that ended before it said so.
var ErrBroken = errors.New("the stream broke off")

// ErrEvent is an error that a server told of within a stream.
var ErrEvent = errors.New("an error within the stream")

// chunk is an event of a chat's stream, as far as it matters here.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string          `json:"content"`
			Reasoning string          `json:"reasoning"`         // vLLM's name for what a model thinks before it answers
			Thought   string          `json:"reasoning_content"` // SGLang's, and vLLM's before
			Tools     json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Details *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// stream reads the answer of one request.
type stream struct {
	began time.Time
	into  *Request
	text  *strings.Builder // nil: nobody wants it
	event time.Duration    // when the first event with a choice came
}

// read takes the server-sent events to the end of the stream (WHATWG HTML, section "Server-sent events").
func (s *stream) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			if s.into.First == 0 { // an answer without text
				s.into.First = s.event
			}
			return nil
		}
		if err := s.take(data); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return ErrBroken
}

func (s *stream) take(data []byte) error {
	if s.into.First > 0 && s.text == nil && !bytes.Contains(data, []byte(`"usage"`)) && !bytes.Contains(data, []byte(`"error"`)) {
		return nil // nothing that is still wanted
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%w: not a chunk of a chat: %.100q", ErrDialect, data)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return fmt.Errorf("%w: %s", ErrEvent, said(data))
	}
	s.usage(&c)
	if len(c.Choices) == 0 {
		return nil
	}
	if s.event == 0 {
		s.event = time.Since(s.began)
	}
	delta := &c.Choices[0].Delta
	if s.into.First == 0 && (delta.Content != "" || delta.Reasoning != "" || delta.Thought != "" || len(delta.Tools) > 0) {
		s.into.First = time.Since(s.began)
	}
	if s.text != nil {
		s.text.WriteString(delta.Content)
	}
	return nil
}

func (s *stream) usage(c *chunk) {
	u := c.Usage
	if u == nil {
		return
	}
	s.into.Prompt, s.into.Output = max(0, u.Prompt), max(0, u.Output)
	if d := u.Details; d != nil && d.Cached != nil && *d.Cached >= 0 && *d.Cached <= u.Prompt { // some count it beside the prompt
		s.into.Cached, s.into.Metered = *d.Cached, true
	}
}
