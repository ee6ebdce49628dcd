package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmring/warmring/test/load"
)

// benchProgress tells how far a run is: on a terminal in one line that changes, elsewhere at its begin and end.
type benchProgress struct {
	line     liveLine
	colours  colours
	place    string        // of the run among all, such as 1/4; may be empty
	name     string        // of the run
	duration time.Duration // of the run; 0: it ends when total requests are done
	total    int
}

func newBenchProgress(out io.Writer, place, name string, duration time.Duration) *benchProgress {
	p := &benchProgress{line: newLiveLine(out), place: place, name: name, duration: duration}
	p.colours = palette(p.line.terminal)
	if !p.line.terminal {
		p.say("%s %s: begins, %s\n", place, name, duration)
	}
	return p
}

// say has nowhere to tell its own failure.
func (p *benchProgress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.line.out, format, args...)
}

// show has last what a narrow terminal can do without.
func (p *benchProgress) show(s load.Progress) {
	parts := []string{strings.TrimSpace(p.place + " " + p.left(&s)), p.done(&s)}
	if s.Errors > 0 {
		parts = append(parts, p.failed(s.Errors))
	}
	parts = append(parts, fmt.Sprintf("%.1f/s", float64(s.Done)/s.Elapsed.Seconds()))
	if s.Prompt > 0 {
		parts = append(parts, fmt.Sprintf("hit %.1f %%", 100*float64(s.Cached)/float64(s.Prompt)))
	}
	if s.Done > s.Errors {
		parts = append(parts, "mean TTFT "+s.MeanFirstToken.Round(time.Millisecond).String())
	}
	parts = append(parts, fmt.Sprintf("%d in flight", s.InFlight))
	p.line.show("%s", strings.TrimSpace(strings.Join(parts, ", ")+"  "+p.name))
}

// left is the time to the end of the run.
func (p *benchProgress) left(s *load.Progress) string {
	if p.duration > 0 {
		if left := p.duration - s.Elapsed; left > 0 {
			return fmt.Sprintf("%s of %s left", left.Round(time.Second), p.duration)
		}
		return "waiting for the last answers"
	}
	if s.Done == 0 {
		return "waiting for the first answer"
	}
	left := s.Elapsed * time.Duration(p.total-s.Done) / time.Duration(s.Done)
	return fmt.Sprintf("about %s left", left.Round(time.Second))
}

func (p *benchProgress) done(s *load.Progress) string {
	if p.total > 0 {
		return fmt.Sprintf("%d of %d done", s.Done, p.total)
	}
	return fmt.Sprintf("%d done", s.Done)
}

func (p *benchProgress) failed(n int) string { return p.colours.red(fmt.Sprintf("%d failed", n)) }

func (p *benchProgress) end(s *load.Summary) {
	p.line.clear()
	failed, first := "", ""
	if s.Errors > 0 {
		failed = ", " + p.failed(s.Errors)
	}
	if s.Requests > s.Errors {
		first = fmt.Sprintf(", mean TTFT %.0f ms", s.Mean)
	}
	p.say("%s %s: %d requests%s%s\n", p.place, p.name, s.Requests, failed, first)
}
