package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// report is the whole result, as it is written to the JSON file.
type report struct {
	Time    time.Time     `json:"time"`
	Quick   bool          `json:"quick"` // small counts: for a look, not for a comparison
	Rate    float64       `json:"requests_per_s"`
	Seconds float64       `json:"seconds"` // that the run took
	Machine sheet.Machine `json:"machine"`
	Tables  []table       `json:"tables"`
	Gates   []gate        `json:"gates"`
}

// missed is how many gates were not reached.
func (r *report) missed() int {
	n := 0
	for _, g := range r.Gates {
		if !g.Reached {
			n++
		}
	}
	return n
}

// table is the figures of one experiment.
type table struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Notes   []string `json:"notes"`   // how it was measured
	Columns []string `json:"columns"` // names of values, in the order of the screen; the last word is the unit
	Rows    []row    `json:"rows"`
	Seconds float64  `json:"seconds"`          // that it took
	Failure string   `json:"failure,omitzero"` // an example of what went wrong
}

// row is the figures of one case, such as "3 replicas". A value that was not measured is not there.
type row struct {
	Case   string             `json:"case"`
	Values map[string]float64 `json:"values"`
}

func (t *table) add(name string, values map[string]float64) {
	for k, v := range values {
		values[k] = math.Round(v*1000) / 1000 // the rest means nothing
	}
	t.Rows = append(t.Rows, row{name, values})
}

// fails keeps the first example of a failure.
func (t *table) fails(what string) {
	if t.Failure == "" {
		t.Failure = what
	}
}

func (t table) String() string {
	titles := []string{""}
	for _, c := range t.Columns {
		titles = append(titles, strings.ReplaceAll(c, "_", " "))
	}
	lines := [][]string{titles}
	for _, r := range t.Rows {
		line := []string{r.Case}
		for _, c := range t.Columns {
			text := "-"
			if v, ok := r.Values[c]; ok {
				text = figure(v)
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (took %.0f s)\n%s", t.Title, t.Seconds, sheet.Grid(lines, 1))
	for _, note := range t.Notes {
		fmt.Fprintf(&b, "  * %s\n", note)
	}
	if t.Failure != "" {
		fmt.Fprintf(&b, "  ! %s\n", t.Failure)
	}
	return b.String()
}

// figure has about three digits.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// progress keeps one line up to date on a terminal and is silent elsewhere.
type progress struct {
	out io.Writer // nil when nobody watches
}

// newProgress watches f if it is a terminal.
func newProgress(f *os.File) *progress {
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return &progress{out: f}
	}
	return &progress{}
}

// step says what is done now.
func (p *progress) step(format string, args ...any) {
	if p.out != nil {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K"+format+" ...", args...)
	}
}

func (p *progress) clear() {
	if p.out != nil {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}
