package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxName bounds what is kept of a header, in bytes: a server could send anything.
const maxName = 128

// Request is one request and how it was answered.
type Request struct {
	At       time.Duration // when it was sent, since the run began
	Late     time.Duration // how long after the script wanted it
	First    time.Duration // to the first token
	Total    time.Duration // to the end of the answer
	Prompt   int           // tokens, as the server counted
	Cached   int           // of Prompt that the server had
	Metered  bool          // the server said how much it had
	Output   int           // tokens
	Backend  string        // X-Warmring-Backend; empty: not said
	Decision string        // X-Warmring-Decision; empty: not said
	Err      error         // nil: it was answered to the end
}

// chat is a request's body.
type chat struct {
	Model     string    `json:"model"`
	Messages  []Message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
	Stream    bool      `json:"stream"`
	Options   struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// ask sends one request and reads its answer to the end. The text is nil where nobody wants it.
func ask(ctx context.Context, client *http.Client, to *Target, base string, c chat, text *strings.Builder) Request {
	var r Request
	c.Model, c.Stream, c.Options.Usage = to.Model, true, true
	body, err := json.Marshal(c)
	if err != nil {
		return Request{Err: err}
	}
	req, err := newRequest(ctx, to, http.MethodPost, base+"/chat/completions", body)
	if err != nil {
		return Request{Err: err}
	}
	began := time.Now()
	r.Err = exchange(client, req, &r, &stream{began: began, into: &r, text: text})
	r.Total = time.Since(began)
	return r
}

func newRequest(ctx context.Context, to *Target, method, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if to.Key != "" {
		req.Header.Set("Authorization", "Bearer "+to.Key)
	}
	return req, nil
}

func exchange(client *http.Client, req *http.Request, r *Request, s *stream) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it is wanted
	r.Backend, r.Decision = header(resp, "X-Warmring-Backend"), header(resp, "X-Warmring-Decision")
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	err = s.read(resp.Body)
	if kind := resp.Header.Get("Content-Type"); errors.Is(err, ErrBroken) && !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("%w: it answered with %.40q, not with text/event-stream", ErrDialect, kind)
	}
	return err
}

func header(resp *http.Response, name string) string {
	value := resp.Header.Get(name)
	return strings.ToValidUTF8(value[:min(len(value), maxName)], "")
}

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Code int
	Said string // the server's own words, cut
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Said)
}

func refusal(resp *http.Response) error {
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("answered %s, then: %w", resp.Status, err)
	}
	return &StatusError{Code: resp.StatusCode, Said: said(text)}
}

// said is the message of an error in OpenAI's envelope, or the beginning of what it is instead.
func said(text []byte) string {
	const most = 300
	var envelope struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	words := string(bytes.TrimSpace(text))
	if strings.HasPrefix(words, "<") {
		return "a page for people, not an error of OpenAI's"
	}
	if json.Unmarshal(text, &envelope) == nil && envelope.Error.Message != "" {
		words = envelope.Error.Message
	}
	return strings.TrimRight(strings.ToValidUTF8(words[:min(len(words), most)], ""), ". ")
}
