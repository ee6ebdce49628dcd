//go:build engine

package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// report is what result.json holds.
type report struct {
	Engine  string   `json:"engine"`
	Engines int      `json:"engines"`
	Prompts int      `json:"prompts"`
	Turns   int      `json:"turns"`
	Seed    int      `json:"seed"`
	Results []result `json:"results"`
}

// publish shows the table and writes result.json.
func (r *report) publish(t *testing.T, s site) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%d engines (%s), %d system prompts, %d questions about each in random order (seed %d), one at a time\n\n",
		r.Engines, r.Engine, r.Prompts, r.Turns, r.Seed)
	fmt.Fprintf(&text, "%-18s %8s %8s %16s %9s\n", "strategy", "requests", "cached", "first token p50", "p90")
	for _, f := range r.Results {
		fmt.Fprintf(&text, "%-18s %8d %6.1f %% %13.0f ms %6.0f ms\n",
			f.form, f.Requests, 100*f.CachedShare, f.FirstTokenP50, f.FirstTokenP90)
	}
	t.Log(text.String())
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("result.json"), append(data, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f form) String() string { return strings.TrimSpace(f.Strategy + " " + f.PrefixLength) }
