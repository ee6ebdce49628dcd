package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// report is the whole result, as it is written to the JSON file.
type report struct {
	Time    time.Time `json:"time"`
	Rounds  int       `json:"rounds"`
	SliceMs float64   `json:"slice_ms"`
	Seconds float64   `json:"seconds"` // that the run took
	Machine machine   `json:"machine"`
	Missing []string  `json:"missing_peers,omitzero"`
	Rows    []row     `json:"rows"`
	Gates   []gate    `json:"gates"`
}

// failures is how many gates were not cleared; one that could not be measured was not cleared.
func (r *report) failures() int {
	n := 0
	for _, g := range r.Gates {
		if g.Verdict != pass {
			n++
		}
	}
	return n
}

// nameColumns is how many columns of a table are names and not figures.
const nameColumns = 2

// column is one name or figure of a table.
type column struct {
	title string
	text  func(row) string
}

func figure(format string, value func(row) float64) func(row) string {
	return func(r row) string {
		if v := value(r); v != 0 {
			return fmt.Sprintf(format, v)
		}
		return "-"
	}
}

func columns(experiment string) []column {
	load := column{"load", func(r row) string { return r.Load }}
	name := column{"target", func(r row) string { return r.Target }}
	p50 := column{"p50 us", figure("%.0f", func(r row) float64 { return r.P50 })}
	p99 := column{"p99 us", figure("%.0f", func(r row) float64 { return r.P99 })}
	more50 := column{"added p50", figure("%.0f", addedP50)}
	more99 := column{"added p99", figure("%.0f", addedP99)}
	perSec := column{"req/s", figure("%.0f", rate)}
	cpu := column{"CPU s/10k", figure("%.2f", func(r row) float64 { return r.CPU })}
	event := column{"CPU us/event", figure("%.1f", func(r row) float64 { return r.EventCPU })}
	stream := column{"KB/stream", figure("%.1f", streamKB)}
	failed := column{"failed", func(r row) string { return fmt.Sprint(r.Failed) }}
	done := column{"answers", func(r row) string { return fmt.Sprint(r.Requests) }}
	switch experiment {
	case streams:
		return []column{load, name, p50, p99, more50, more99, cpu, event, done, failed}
	case saturation:
		return []column{load, name, perSec, p50, p99, cpu, done, failed}
	case memory:
		return []column{load, name, stream, done, failed}
	default:
		return []column{load, name, p50, p99, more50, more99, cpu, done, failed}
	}
}

// table is the figures of one experiment, a blank line between two loads.
func table(e experiment, rows []row) string {
	cols := columns(e.name)
	titles := make([]string, len(cols))
	for i, c := range cols {
		titles[i] = c.title
	}
	lines := [][]string{titles}
	for i, r := range rows {
		if i > 0 && r.Load != rows[i-1].Load {
			lines = append(lines, nil)
		}
		line := make([]string, len(cols))
		for k, c := range cols {
			line[k] = c.text(r)
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s", e.title, sheet.Grid(lines, nameColumns))
	for _, r := range rows {
		if r.Failure != "" {
			fmt.Fprintf(&b, "  %s, %s: %d failed, for example: %s\n", r.Target, r.Load, r.Failed, r.Failure)
		}
	}
	return b.String()
}

func verdicts(gates []gate) string {
	if len(gates) == 0 {
		return ""
	}
	lines := make([][]string, len(gates))
	for i, g := range gates {
		lines[i] = []string{string(g.Verdict), g.Target, g.Name, g.measured(), g.limit()}
	}
	return "\nGates\n" + sheet.Grid(lines, len(lines[0]))
}

func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, m.Machine)
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		if v := m.Versions[name]; v != "" {
			fmt.Fprintln(&b, v)
		}
	}
	return b.String()
}

// progress keeps one line up to date on a terminal and is silent elsewhere.
type progress struct {
	out   io.Writer // nil when nobody watches
	total int
	done  int
	start time.Time
}

// newProgress watches f if it is a terminal.
func newProgress(f *os.File) *progress {
	p := &progress{start: time.Now()}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.out = f
	}
	return p
}

// step says what is done next, and that it is that much of the total.
func (p *progress) step(what string, weight int) {
	p.done += weight
	if p.out != nil {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%3d %%  %s", min(100, 100*p.done/max(1, p.total)), what)
	}
}

func (p *progress) clear() {
	if p.out != nil {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}
