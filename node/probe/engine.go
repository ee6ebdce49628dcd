package probe

import (
	"strconv"
	"strings"
	"time"
)

// engine is the progress that a backend's metrics show.
type engine struct {
	working bool // had requests when last looked at
	tokens  float64
	looked  time.Time
	stood   time.Duration // how long it had work since its tokens last moved
}

// observe reads metrics. A text without vLLM's names says nothing. Time without work does not count, and does not show that
// the engine is well either: routers that gave up a stalled one leave it idle now and then.
func (e *engine) observe(text string, now time.Time) {
	requests, tokens, ok := parse(text)
	if !ok {
		*e = engine{}
		return
	}
	working := requests > 0
	switch {
	case tokens != e.tokens:
		e.stood = 0
	case working && e.working:
		e.stood += now.Sub(e.looked)
	}
	e.working, e.tokens, e.looked = working, tokens, now
}

// parse sums, over all models, the requests that an engine has and what it computed for requests so far. The names are
// those of vLLM's metrics (vllm/v1/metrics/loggers.py); the last one counts engine steps, which go on while a long prompt
// is read. ok: both are there.
func parse(text string) (requests, work float64, ok bool) {
	var gauge, counter bool
	for line := range strings.Lines(text) {
		name, _, value, isSample := sample(line)
		if !isSample {
			continue
		}
		switch name {
		case "vllm:num_requests_running", "vllm:num_requests_waiting":
			requests, gauge = requests+value, true
		case "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:iteration_tokens_total_count":
			work, counter = work+value, true
		}
	}
	return requests, work, gauge && counter
}

// sample reads one line of the Prometheus text format 0.0.4: name, labels with their braces (empty without any), value, and
// a time that is ignored.
func sample(line string) (name, labels string, value float64, ok bool) {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return "", "", 0, false
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		after := strings.LastIndexByte(rest, '}') + 1 // a label's value may hold braces, what follows may not
		labels, rest = rest[:after], rest[after:]
	}
	columns := strings.Fields(rest)
	if len(columns) == 0 {
		return "", "", 0, false
	}
	value, err := strconv.ParseFloat(columns[0], 64)
	return name, labels, value, err == nil
}
