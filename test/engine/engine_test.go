//go:build engine

// Package engine measures what the router is worth in front of real inference engines: llama.cpp servers with a real
// small model, each with room for one prompt in its prefix cache. `make test-engine` installs them and runs it.
package engine

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

const (
	engines = 4
	// prompts is how many system prompts there are, one for each engine's cache: together the caches suffice, a
	// single one does not.
	prompts = engines
	turns   = 16 // questions about each prompt; the first one finds a cold cache in any case, and counts
	seed    = 1  // of the prompts and of the order of the questions

	minCached  = 0.90 // of the prompt tokens
	minSpeedup = 5    // of the median time to first token over RANDOM's
)

// form is a way of routing, as the configuration file has it.
type form struct {
	Strategy     string `json:"strategy"`
	PrefixLength string `json:"prefix_length,omitempty"`
}

// Each form gets engines of its own, so that none profits from what another one has left in the caches.
func TestPrefixAwareKeepsEnginesWarm(t *testing.T) {
	site := installed(t)
	fixed, auto := form{"PREFIX_AWARE", "1024"}, form{"PREFIX_AWARE", "auto"}
	asked := questions(draw(t, site, fixed))

	report := report{Engines: engines, Prompts: prompts, Turns: turns, Seed: seed}
	for _, f := range []form{fixed, auto, {Strategy: "RANDOM"}} {
		t.Run(f.Strategy+" "+f.PrefixLength, func(t *testing.T) {
			fleet := startEngines(t, site)
			report.Engine = fleet[0].name
			router := startRouter(t, site, f, fleet)
			answers := make([]answer, 0, len(asked))
			for _, q := range asked {
				a := ask(t, router, q)
				t.Logf("manual %.3s: %s, %d of %d tokens cached, %d ms", q.system, a.way, a.cached, a.prompt, a.firstToken.Milliseconds())
				answers = append(answers, a)
			}
			report.Results = append(report.Results, summarise(f, answers))
		})
	}
	if t.Failed() {
		return
	}
	report.publish(t, site)
	random := report.Results[len(report.Results)-1]
	for _, r := range report.Results[:len(report.Results)-1] {
		if r.CachedShare < minCached {
			t.Errorf("%s: %.1f %% of the prompt tokens were cached, want at least %.0f %%", r.form, 100*r.CachedShare, 100*minCached)
		}
		if r.FirstTokenP50*minSpeedup > random.FirstTokenP50 {
			t.Errorf("%s: median time to first token is %.0f ms, want at most 1/%d of RANDOM's %.0f ms",
				r.form, r.FirstTokenP50, minSpeedup, random.FirstTokenP50)
		}
	}
}

// result is what one form of routing brought. Times are in milliseconds.
type result struct {
	form
	Requests      int     `json:"requests"`
	PromptTokens  int     `json:"prompt_tokens"`
	CachedTokens  int     `json:"cached_tokens"`
	CachedShare   float64 `json:"cached_share"`
	FirstTokenP50 float64 `json:"first_token_p50_ms"`
	FirstTokenP90 float64 `json:"first_token_p90_ms"`
}

func summarise(f form, answers []answer) result {
	r := result{form: f, Requests: len(answers)}
	for _, a := range answers {
		r.PromptTokens += a.prompt
		r.CachedTokens += a.cached
	}
	r.CachedShare = float64(r.CachedTokens) / float64(r.PromptTokens)
	slices.SortFunc(answers, func(a, b answer) int { return cmp.Compare(a.firstToken, b.firstToken) })
	at := func(share float64) float64 {
		return float64(answers[int(share*float64(len(answers)-1))].firstToken) / float64(time.Millisecond)
	}
	r.FirstTokenP50, r.FirstTokenP90 = at(0.5), at(0.9)
	return r
}
