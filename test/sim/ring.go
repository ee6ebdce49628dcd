package sim

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// defaultLines is how much of each log is kept; SIM_LINES has precedence.
const defaultLines = 25

// ring keeps the last lines of a log.
type ring struct {
	max int

	mu    sync.Mutex // guards lines
	lines []string   // a line each
}

func newRing() *ring {
	n, err := strconv.Atoi(os.Getenv("SIM_LINES"))
	if err != nil || n < 0 {
		n = defaultLines
	}
	return &ring{max: n}
}

// Write implements io.Writer; p is whole lines, as from a logger.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range bytes.Lines(p) {
		r.lines = append(r.lines, string(line))
	}
	if over := len(r.lines) - r.max; over > 0 {
		r.lines = append(r.lines[:0], r.lines[over:]...)
	}
	return len(p), nil
}

func (r *ring) tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "")
}
