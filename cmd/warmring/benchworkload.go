package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/test/load"
	"github.com/warmring/warmring/test/workload"
)

const (
	// openClients is how many requests are in flight at most where a workload's sessions do not wait for each other.
	openClients = 512
	// closedSpare is how much faster a fleet may be than a closed workload supposes before the script runs out.
	closedSpare = 4
)

// workloadFlags say what a bench sends.
type workloadFlags struct {
	name, trace string
	seed        uint64
	rate, scale float64
	clients     int
}

func (w *workloadFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.name, "workload", "c", "`name` of one of those above")
	f.Float64Var(&w.rate, "rate", 1, "factor on how much is sent; 1 is sized for seven servers with a 70B model on eight H100s each")
	f.Float64Var(&w.scale, "scale", 1, "factor on the length of prompts, for smaller servers")
	f.IntVar(&w.clients, "clients", 0, fmt.Sprintf("requests in flight at most; in a1 and a2 also clients (0: the workload's; others: %d)", openClients))
	f.Uint64Var(&w.seed, "seed", 1, "of the workload: the same one asks the same")
	f.StringVar(&w.trace, "trace", "", "`file` with the trace that e1 replays, in Mooncake's form")
}

// benchKinds are the workloads that a client can send by itself: servers do not come, go or stall.
func benchKinds() []workload.Kind {
	return slices.DeleteFunc(workload.Kinds(), func(k workload.Kind) bool {
		family, _, _ := strings.Cut(k.Name, "-")
		return slices.Contains([]string{"fleet", "double", "stall"}, family)
	})
}

func benchWorkloads() []string {
	var names []string
	for _, k := range benchKinds() {
		names = append(names, k.Name)
	}
	return names
}

// describeWorkloads has one line a workload.
func describeWorkloads() string {
	var text strings.Builder
	for _, k := range benchKinds() {
		fmt.Fprintf(&text, "  %-12s %s\n", k.Name, k.About)
	}
	return strings.TrimRight(text.String(), "\n")
}

func (w *workloadFlags) validate() error {
	switch {
	case !slices.Contains(benchWorkloads(), w.name):
		return usagef("--workload %q: must be one of %s", w.name, strings.Join(benchWorkloads(), ", "))
	case !(w.rate > 0) || w.rate > 1000:
		return usagef("--rate %v: must be above 0 and at most 1000", w.rate)
	case !(w.scale > 0) || w.scale > 100:
		return usagef("--scale %v: must be above 0 and at most 100", w.scale)
	case w.clients < 0 || w.clients > benchMaxClients:
		return usagef("--clients %d: must be 0 to %d", w.clients, benchMaxClients)
	}
	return nil
}

// config is a run of the workload, which lasts that long.
func (w *workloadFlags) config(duration time.Duration) (load.Config, error) {
	o := workload.Options{Seed: w.seed, Rate: w.rate, Trace: w.trace}
	usual, err := workload.New(w.name, o)
	if err != nil {
		if errors.Is(err, workload.ErrNoTrace) {
			return load.Config{}, usagef("--trace is needed: the file that %s replays", w.name)
		}
		return load.Config{}, fmt.Errorf("--trace: %w", err)
	}
	o.Length = duration.Seconds() / usual.End.Seconds()
	if usual.Clients > 0 {
		o.Length *= closedSpare
		if w.clients > 0 {
			o.Rate *= float64(w.clients) / float64(usual.Clients)
		}
	}
	s, err := workload.New(w.name, o)
	if err != nil {
		return load.Config{}, err
	}
	return load.Config{
		Script: &benchScript{sessions: s.Sessions, scale: w.scale}, Open: s.Clients == 0,
		Clients: cmp.Or(w.clients, s.Clients, openClients), Duration: duration,
	}, nil
}

// settings are for a reader of the report.
func (w *workloadFlags) settings() []load.Setting {
	var about string
	for _, k := range workload.Kinds() {
		if k.Name == w.name {
			about = k.About
		}
	}
	settings := []load.Setting{
		{Name: "workload", Value: w.name + ": " + about},
		{Name: "seed", Value: fmt.Sprint(w.seed)},
		{Name: "rate", Value: fmt.Sprint(w.rate)},
		{Name: "scale", Value: fmt.Sprint(w.scale)},
	}
	if w.clients > 0 {
		settings = append(settings, load.Setting{Name: "clients", Value: fmt.Sprint(w.clients)})
	}
	return settings
}

// benchScript is a workload as chats.
type benchScript struct {
	sessions []workload.Session
	scale    float64
}

// Next makes the texts only now: all of them would not fit into memory.
func (b *benchScript) Next() (load.Session, bool) {
	if len(b.sessions) == 0 {
		return load.Session{}, false
	}
	s := b.scaled(&b.sessions[0])
	b.sessions = b.sessions[1:]
	out := load.Session{Start: s.Start}
	for i := range s.Turns {
		turn := load.Turn{Output: s.Turns[i].Answer.Tokens, Think: s.Turns[i].Think}
		for _, m := range s.Messages(i) {
			turn.Messages = append(turn.Messages, load.Message{Role: m.Role.String(), Content: m.Text})
		}
		out.Turns = append(out.Turns, turn)
	}
	return out, true
}

// scaled has longer or shorter prompts. What was shared stays so: the text of a segment is the beginning of a longer one's.
func (b *benchScript) scaled(s *workload.Session) *workload.Session {
	out := &workload.Session{Start: s.Start, Turns: slices.Clone(s.Turns)}
	for i := range out.Turns {
		t := &out.Turns[i]
		t.Prompt = slices.Clone(t.Prompt)
		for j := range t.Prompt {
			t.Prompt[j].Tokens = max(1, int(float64(t.Prompt[j].Tokens)*b.scale))
		}
	}
	return out
}
