package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/warmring/warmring/test/load"
)

// The demonstration load: every question is asked about every document, in random order.
const (
	loadDocuments   = 42
	loadQuestions   = 6
	loadDocument    = 24 << 10 // bytes
	loadConcurrency = 8
	loadOutput      = 16 // tokens
)

// demoScript is the demonstration load's prompts, each a session of one turn.
type demoScript struct{ prompts []string }

func (s *demoScript) Next() (load.Session, bool) {
	if len(s.prompts) == 0 {
		return load.Session{}, false
	}
	prompt := s.prompts[0]
	s.prompts = s.prompts[1:]
	return load.Session{Turns: []load.Turn{{Messages: []load.Message{{Role: "user", Content: prompt}}, Output: loadOutput}}}, true
}

// runLoad sends the demonstration load to the routers at bases, in turn, and writes to out how the answers came about.
func runLoad(ctx context.Context, bases []string, out io.Writer) error {
	prompts := loadPrompts()
	_, err := fmt.Fprintf(out, "\nSending %d requests: %d questions about each of %d documents of %d KiB, in random order ...\n",
		len(prompts), loadQuestions, loadDocuments, loadDocument>>10)
	if err != nil {
		return err
	}
	target := load.Target{Model: demoModel}
	for _, base := range bases {
		target.Bases = append(target.Bases, base+"/v1")
	}
	progress := benchProgress{line: newLiveLine(out), total: len(prompts)}
	progress.colours = palette(progress.line.terminal)
	result := load.Run(ctx, load.Config{Target: target, Script: &demoScript{prompts}, Clients: loadConcurrency, Progress: progress.show})
	progress.line.clear()
	if err := ctx.Err(); err != nil {
		return err
	}
	summary := load.Summarise("all", &result, 0, nil)
	if summary.Errors > 0 {
		k := summary.Kinds[0]
		return fmt.Errorf("load: %d of %d requests failed, %d with %s: %s", summary.Errors, summary.Requests, k.Count, k.Kind, k.Example)
	}
	return printLoad(out, &summary)
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

// printLoad writes one row for each backend and one for all.
func printLoad(out io.Writer, s *load.Summary) error {
	var t table
	t.row()
	t.row("BACKEND", "REQUESTS", "PROMPT TOKENS", "CACHED", "MEDIAN TTFT")
	for _, b := range s.Servers {
		loadRow(&t, &b)
	}
	loadRow(&t, &load.ServerShare{Name: "all", Requests: s.Requests, Prompt: s.Prompt, Cached: s.Cached, P50: s.P50})
	if err := t.write(out); err != nil {
		return err
	}
	took := time.Duration(s.Seconds * float64(time.Second))
	_, err := fmt.Fprintf(out, "\n%d requests in %s; at best %.1f %% could be cached: each document has to be read once.\n",
		s.Requests, took.Round(time.Millisecond), 100*float64(loadQuestions-1)/loadQuestions)
	return err
}

func loadRow(t *table, b *load.ServerShare) {
	rate := fmt.Sprintf("%.1f %%", 100*float64(b.Cached)/float64(max(b.Prompt, 1)))
	first := time.Duration(b.P50 * float64(time.Millisecond))
	t.row(b.Name, b.Requests, b.Prompt, rate, first.Round(time.Millisecond))
}
