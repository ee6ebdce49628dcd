package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The demonstration load: every question is asked about every document, in random order.
const (
	loadDocuments   = 42
	loadQuestions   = 6
	loadDocument    = 24 << 10 // bytes
	loadConcurrency = 8
)

// answer is what one request of the load showed.
type answer struct {
	backend        string
	prompt, cached int
	firstToken     time.Duration
}

// runLoad sends the demonstration load to the routers at bases, in turn, and writes to out how the answers came about.
func runLoad(ctx context.Context, bases []string, out io.Writer) error {
	prompts := loadPrompts()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadConcurrency}}
	defer client.CloseIdleConnections()
	_, err := fmt.Fprintf(out, "\nSending %d requests: %d questions about each of %d documents of %d KiB, in random order ...\n",
		len(prompts), loadQuestions, loadDocuments, loadDocument>>10)
	if err != nil {
		return err
	}
	var (
		mu      sync.Mutex // guards answers
		answers []answer
	)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadConcurrency)
	for i, prompt := range prompts {
		group.Go(func() error {
			a, err := ask(ctx, client, bases[i%len(bases)], prompt)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return printLoad(out, answers, time.Since(began))
}

// loadPrompts is the same on each run, so that two runs can be compared.
func loadPrompts() []string {
	r := rand.New(rand.NewPCG(1, 2))
	prompts := make([]string, 0, loadDocuments*loadQuestions)
	for d := range loadDocuments {
		var document strings.Builder
		fmt.Fprintf(&document, "Document %d.", d)
		for document.Len() < loadDocument {
			fmt.Fprintf(&document, " %06x", r.IntN(1<<24))
		}
		for q := range loadQuestions {
			prompts = append(prompts, fmt.Sprintf("%s\n\nQuestion %d: what does this document say?", document.String(), q))
		}
	}
	r.Shuffle(len(prompts), func(i, j int) { prompts[i], prompts[j] = prompts[j], prompts[i] })
	return prompts
}

// ask sends one streamed chat request and reads its answer to the end.
func ask(ctx context.Context, client *http.Client, base, prompt string) (answer, error) {
	body, err := json.Marshal(map[string]any{
		"model": demoModel, "stream": true, "max_tokens": 16,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return answer{}, errors.Join(fmt.Errorf("the router answered %s: %s", resp.Status, bytes.TrimSpace(text)), err)
	}
	a := answer{backend: resp.Header.Get("X-Warmring-Backend")}
	err = a.read(resp.Body, began)
	return a, err
}

// read takes the server-sent events of an answer.
func (a *answer) read(body io.Reader, began time.Time) error {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if a.firstToken == 0 {
			a.firstToken = time.Since(began)
		}
		if data == "[DONE]" {
			return nil
		}
		var event struct {
			Usage *struct {
				PromptTokens int `json:"prompt_tokens"`
				Details      struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return fmt.Errorf("event %q: %w", data, err)
		}
		if event.Usage != nil {
			a.prompt, a.cached = event.Usage.PromptTokens, event.Usage.Details.Cached
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// printLoad writes one row for each backend and one for all.
func printLoad(out io.Writer, answers []answer, took time.Duration) error {
	by := map[string][]answer{}
	for _, a := range answers {
		by[a.backend] = append(by[a.backend], a)
	}
	var t table
	t.row()
	t.row("BACKEND", "REQUESTS", "PROMPT TOKENS", "CACHED", "MEDIAN TTFT")
	for _, name := range slices.Sorted(maps.Keys(by)) {
		loadRow(&t, name, by[name])
	}
	loadRow(&t, "all", answers)
	if err := t.write(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d requests in %s; at best %.1f %% could be cached: each document has to be read once.\n",
		len(answers), took.Round(time.Millisecond), 100*float64(loadQuestions-1)/loadQuestions)
	return err
}

func loadRow(t *table, name string, answers []answer) {
	prompt, cached := 0, 0
	first := make([]time.Duration, 0, len(answers))
	for _, a := range answers {
		prompt, cached, first = prompt+a.prompt, cached+a.cached, append(first, a.firstToken)
	}
	slices.Sort(first)
	rate := fmt.Sprintf("%.1f %%", 100*float64(cached)/float64(max(prompt, 1)))
	t.row(name, len(answers), prompt, rate, first[len(first)/2].Round(time.Millisecond))
}
