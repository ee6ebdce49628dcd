package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ask sends the i-th request and counts how it ended.
func (t *Traffic) ask(r *Router, i int) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.w.ctx, t.load.GiveUp)
	defer cancel()
	started, err := t.request(ctx, r, i)
	var c Counts
	switch took := time.Since(began); {
	case t.w.ctx.Err() != nil:
		return // the scenario is over
	case err == nil && took <= t.load.Late:
		c.OK++
	case err == nil, ctx.Err() != nil:
		c.Late++
		err = fmt.Errorf("after %v: %w", took, errors.Join(err, ctx.Err()))
	case started:
		c.Cut++
	default:
		c.Refused++
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[r.Name] = t.counts[r.Name].add(c)
	if err != nil && t.examples[r.Name] == "" {
		t.examples[r.Name] = fmt.Sprintf("request %d at %v: %v", i, began.Sub(t.w.began), err)
	}
}

// errIncomplete is an answer that ends without saying that it is complete.
var errIncomplete = errors.New("the answer is not complete")

// request is one chat; started says whether an answer began.
func (t *Traffic) request(ctx context.Context, r *Router, i int) (started bool, err error) {
	stream := float64(i%100) < 100*t.load.Stream
	body, err := json.Marshal(map[string]any{
		"model": model, "stream": stream, "max_tokens": t.load.Tokens,
		"messages": []map[string]string{{"role": "user", "content": t.prompt(i)}},
	})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or nobody cares
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 300))
		return false, errors.Join(fmt.Errorf("status %d: %s", resp.StatusCode, text), err)
	}
	if stream {
		return true, complete(resp.Body)
	}
	var answer struct{ Choices []json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return true, err
	}
	if len(answer.Choices) != 1 {
		return true, errIncomplete
	}
	return true, nil
}

// complete reads a stream of server-sent events to its end.
func complete(r io.Reader) error {
	last := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "event: error") || strings.HasPrefix(line, `data: {"error"`) {
			return fmt.Errorf("%w: %s", errIncomplete, line)
		}
		if line != "" {
			last = line
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if last != "data: [DONE]" {
		return fmt.Errorf("%w: it ends with %q", errIncomplete, last)
	}
	return nil
}

// prompt is the i-th request's. Requests with the same prompt belong to the same server.
func (t *Traffic) prompt(i int) string {
	text := fmt.Sprintf("question %d of seed %d. ", i%t.load.Prompts, t.w.Seed)
	return text + strings.Repeat("x", max(0, t.load.Size-len(text)))
}
