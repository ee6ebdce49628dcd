//go:build engine

package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// question is one request: a long system prompt and a short question about it.
type question struct{ system, user string }

// promptLength is in characters: more than the 4,096 bytes that `auto` pins at, so that the question does not matter.
const promptLength = 4300

// prompt is a made-up manual; all of them differ from the first word on. Its words are long, because engines count
// tokens and routers characters.
func prompt(number int) string {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	word := func(list string) string {
		words := strings.Fields(list)
		return words[r.IntN(len(words))]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d is the number of this manual.", number)
	for b.Len() < promptLength {
		for range 3 {
			fmt.Fprintf(&b, " %s %s %s",
				word("international administrative professional environmental pharmaceutical transportation manufacturing telecommunications"),
				word("representatives responsibilities recommendations communications investigations organizations requirements specifications"),
				word("regarding concerning throughout considering notwithstanding accompanying understanding representing"))
		}
		fmt.Fprintf(&b, " %s documentation.", word("comprehensive supplementary confidential independent experimental constitutional"))
	}
	return b.String()[:promptLength]
}

// questions is every turn about every prompt, in random order.
func questions(systems []string) []question {
	var all []question
	for _, system := range systems {
		for turn := range turns {
			all = append(all, question{system, fmt.Sprintf("What does rule %d mean?", turn+1)})
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// post sends q to base as a streamed chat completion.
func post(t *testing.T, base string, q question) *http.Response {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": endpoint, "max_tokens": 4, "temperature": 0,
		"ignore_eos": true, // llama.cpp's: answer with all four tokens, so that there is a first one
		"stream":     true, "stream_options": map[string]bool{"include_usage": true},
		"messages": []map[string]string{{"role": "system", "content": q.system}, {"role": "user", "content": q.user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		t.Fatalf("the router answered %s: %s", resp.Status, text)
	}
	return resp
}

// answer is what the client saw of one request; the token counts are the engine's.
type answer struct {
	firstToken     time.Duration // from sending the request
	prompt, cached int
	way            string // home, backend and decision, as the router told them
}

// chunk is what matters here of an event of a streamed chat completion.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// ask sends q and reads the stream to its end.
func ask(t *testing.T, base string, q question) answer {
	t.Helper()
	began := time.Now()
	resp := post(t, base, q)
	defer resp.Body.Close()
	said := resp.Header.Get
	a := answer{way: fmt.Sprintf("home %s, %s by %s", said("X-Warmring-Home"), said("X-Warmring-Decision"), said("X-Warmring-Backend"))}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		if a.firstToken == 0 && len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
			a.firstToken = time.Since(began)
		}
		if c.Usage != nil {
			a.prompt, a.cached = c.Usage.PromptTokens, c.Usage.Details.CachedTokens
		}
	}
	if a.firstToken == 0 || a.prompt == 0 {
		t.Fatalf("the stream ended without a token or its usage: %+v", a)
	}
	return a
}
