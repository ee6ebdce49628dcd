package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// Report is several runs of one script, side by side.
type Report struct {
	Started time.Time     `json:"started"`
	Machine sheet.Machine `json:"machine"` // of this program
	Setup   []Setting     `json:"setup"`
	Runs    []Summary     `json:"runs"`
}

// Setting is something that the runs have in common.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Table has one line a run, and lines for what needs a word.
func (r *Report) Table() string {
	lines := [][]string{{"RUN", "REQUESTS", "ERRORS", "HIT %", "TTFT P50", "P90", "P99", "MEAN MS", "REQ/S", "SHARE %"}}
	for _, s := range r.Runs {
		line := []string{s.Name, fmt.Sprint(s.Requests), fmt.Sprint(s.Errors), percent(s.Hit)}
		line = append(line, times(s, s.P50, s.P90, s.P99, s.Mean)...)
		lines = append(lines, append(line, fmt.Sprintf("%.1f", s.RPS), shares(&s)))
	}
	return sheet.Grid(lines, 1)
}

// Notes are sentences on what a reader of the figures must know.
func (r *Report) Notes() []string {
	const lateness = 100 // milliseconds
	var notes []string
	for _, s := range r.Runs {
		for _, k := range s.Kinds {
			notes = append(notes, fmt.Sprintf("%s: %d x %s, for example: %s%s", s.Name, k.Count, k.Kind, k.Example, remedy(k.Kind)))
		}
		if s.Unfinished > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d requests were not finished when the run ended.", s.Name, s.Unfinished))
		}
		if s.Cut {
			notes = append(notes, s.Name+": ended before its time.")
		}
		if s.Short {
			notes = append(notes, fmt.Sprintf("%s: the workload was over after %.1f s.", s.Name, s.Seconds))
		}
		if s.LateP99 > lateness {
			notes = append(notes, fmt.Sprintf("%s: requests were sent up to %.0f ms (p99) late, so the load was lighter than asked for: "+
				"more clients or a lower rate.", s.Name, s.LateP99))
		}
		if s.Hit == nil && s.Requests > s.Errors {
			notes = append(notes, s.Name+": the servers do not say how much of a prompt was cached; vLLM does with --enable-prompt-tokens-details.")
		}
	}
	return notes
}

// times are figures of a run in milliseconds, "-" where nothing was answered.
func times(s Summary, ms ...float64) []string {
	var out []string
	for _, v := range ms {
		text := "-"
		if s.Requests > s.Errors {
			text = figure(v)
		}
		out = append(out, text)
	}
	return out
}

// shares are the least and the greatest of a server.
func shares(s *Summary) string {
	if s.ShareMin == nil || s.ShareMax == nil {
		return "-"
	}
	return percent(s.ShareMin) + "-" + percent(s.ShareMax)
}

// percent is a share in percent without its sign, "-" where it is not known.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**share)
}

// figure has as many digits as are worth reading.
func figure(ms float64) string {
	if ms < 100 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// decisions lists how often each reason for a choice was given, by name.
func decisions(s Summary) string {
	var parts []string
	for _, name := range sortedKeys(s.Decisions) {
		parts = append(parts, fmt.Sprintf("%s %.1f %%", name, 100*float64(s.Decisions[name])/float64(max(s.Requests, 1))))
	}
	return strings.Join(parts, ", ")
}
