package workload

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// ErrNoTrace says that the workload replays a trace and Options.Trace names none.
var ErrNoTrace = errors.New("the workload needs the file of a trace")

const (
	// traceBlock is how many tokens a block id of the trace stands for.
	traceBlock = 512
	traceSpeed = 2
	// traceBin is the raster of the trace's timestamps; requests are spread over it.
	traceBin = 3 * time.Second
	// traceEnd is the greatest timestamp, in ms: it is counted from the trace's beginning.
	traceEnd = 1e10
	// traceWarm is the share of the trace that does not count.
	traceWarm = 0.15
)

// replay is the conversation trace that was published with the Mooncake paper (Qin et al., FAST 2025; JSON lines in the
// repository kvcache-ai/Mooncake, FAST25-release/traces): a request's lengths and one id for each block of its prompt, equal
// for equal prefixes.
func (m *maker) replay() error {
	if m.o.Trace == "" {
		return ErrNoTrace
	}
	f, err := os.Open(m.o.Trace)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := m.read(f); err != nil {
		return fmt.Errorf("%s: %w", m.o.Trace, err)
	}
	return nil
}

type traced struct {
	Timestamp    float64  `json:"timestamp"` // ms
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint32 `json:"hash_ids"`
}

func (m *maker) read(from io.Reader) error {
	s := m.script
	s.Block = traceBlock
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var r traced
		err := json.Unmarshal(lines.Bytes(), &r)
		switch {
		case err != nil:
		case r.InputLength <= 0:
			err = errors.New("it has no input_length")
		case r.Timestamp < 0 || r.Timestamp > traceEnd:
			err = fmt.Errorf("its timestamp is %g, and must be milliseconds since the trace's beginning", r.Timestamp)
		}
		if err != nil {
			return fmt.Errorf("line %d is not a request of such a trace: %w", n, err)
		}
		at := time.Duration(r.Timestamp*float64(time.Millisecond)) + time.Duration(m.Float64()*float64(traceBin))
		at = time.Duration(float64(at) / (traceSpeed * m.o.Rate))
		s.Sessions = append(s.Sessions, Session{at, []Turn{m.traced(&r)}})
	}
	slices.SortStableFunc(s.Sessions, func(a, b Session) int { return cmp.Compare(a.Start, b.Start) })
	if err := lines.Err(); err != nil {
		return err
	}
	n := len(s.Sessions)
	if n == 0 {
		return errors.New("there is no request in it")
	}
	s.Sessions = s.Sessions[:max(1, int(float64(n)*min(1, m.o.Length)))]
	s.End = s.Sessions[len(s.Sessions)-1].Start
	s.Warm = time.Duration(traceWarm * float64(s.End))
	return nil
}

// traced makes a turn of a line of the trace. What follows the prompt's last full block is nobody else's, and nothing of the
// trace tells whether a later prompt contains the answer: neither is cached.
func (m *maker) traced(r *traced) Turn {
	t := Turn{Tokens: r.InputLength}
	full := min(len(r.HashIDs), r.InputLength/traceBlock)
	for _, id := range r.HashIDs[:full] {
		m.script.Blocks = max(m.script.Blocks, id+2)
		t.Prompt = append(t.Prompt, Segment{Role: User, Tokens: traceBlock, Seed: mix(uint64(id) * golden), first: id + 1})
	}
	t.Prompt = append(t.Prompt, Segment{Role: User, Tokens: r.InputLength - full*traceBlock, Seed: m.Uint64()})
	t.Answer = Segment{Role: Assistant, Tokens: max(1, r.OutputLength), Seed: m.Uint64()}
	return t
}
