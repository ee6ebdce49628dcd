package main

import (
	"fmt"
	"io"
	"time"

	"github.com/warmring/warmring/test/load"
)

// benchProgress tells how far a run is: on a terminal in one line that changes, elsewhere at its begin and end.
type benchProgress struct {
	out      io.Writer
	name     string
	duration time.Duration
	terminal bool
	colours  colours
}

func newBenchProgress(out io.Writer, name string, duration time.Duration) *benchProgress {
	p := &benchProgress{out: out, name: name, duration: duration, terminal: isTerminal(out)}
	p.colours = palette(p.terminal)
	if !p.terminal {
		p.say("%s: begins, %s\n", name, duration)
	}
	return p
}

// say has nowhere to tell its own failure.
func (p *benchProgress) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

func (p *benchProgress) show(s load.Progress) {
	if !p.terminal {
		return
	}
	failed := ""
	if s.Errors > 0 {
		failed = p.colours.red(fmt.Sprintf(", %d failed", s.Errors))
	}
	hit := ""
	if s.Prompt > 0 {
		hit = fmt.Sprintf(", hit %.1f %%", 100*float64(s.Cached)/float64(s.Prompt))
	}
	p.say("\r\x1b[K%s: %s/%s, %d done%s, %d in flight, mean TTFT %s%s", p.name, s.Elapsed.Round(time.Second), p.duration,
		s.Done, failed, s.InFlight, s.MeanFirstToken.Round(time.Millisecond), hit)
}

func (p *benchProgress) end(s *load.Summary) {
	if p.terminal {
		p.say("\r\x1b[K")
	}
	failed := ""
	if s.Errors > 0 {
		failed = p.colours.red(fmt.Sprintf(", %d failed", s.Errors))
	}
	p.say("%s: %d requests%s, mean TTFT %.0f ms\n", p.name, s.Requests, failed, s.Mean)
}
