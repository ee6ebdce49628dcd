// Command overhead measures what warmring adds to a request, in one interleaved run against
// haproxy, nginx and no proxy at all, and holds the result against the gates of the project.
//
// Absolute times on a shared machine move by a factor of two from minute to minute; ratios
// inside one run do not. So every target gets short slices in random order, round after round,
// and each figure is the median over the rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// backendCommand is the first argument that turns this program into the backend.
const backendCommand = "backend"

var errGate = errors.New("gates not passed")

type options struct {
	rounds  int
	slice   time.Duration
	targets []string
	only    []string
	out     string
	gate    bool
	require bool
}

func main() { os.Exit(sheet.Main("overhead", os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == backendCommand {
		return serveBackend(ctx, os.Stdin, out)
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	r, err := bench(ctx, o, out)
	if err != nil {
		return err
	}
	if err := sheet.Save(o.out, r); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\n%.0f s; load average %s; all figures in %s\n", r.Seconds, r.Machine.LoadAfter, o.out); err != nil {
		return err
	}
	if n := r.failures(); o.gate && (n > 0 || len(r.Gates) == 0) {
		return fmt.Errorf("%w: %d of %d failed", errGate, n, len(r.Gates))
	}
	return nil
}

func parseOptions(args []string) (options, error) {
	o := options{}
	f := flag.NewFlagSet("overhead", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 8, "measured rounds; one more goes ahead to warm up")
	f.DurationVar(&o.slice, "slice", 200*time.Millisecond, "how long each target is loaded in a round")
	targets := f.String("targets", strings.Join(allTargets(), ","), "targets to compare; direct is always among them")
	only := f.String("only", strings.Join(allExperiments(), ","), "experiments to run")
	f.StringVar(&o.out, "out", "build/bench/overhead.json", "file for the figures")
	f.BoolVar(&o.gate, "gate", false, "exit with 1 if a gate fails or cannot be measured, or if there is none")
	f.BoolVar(&o.require, "require", false, "fail if haproxy or nginx is not installed, instead of leaving it out")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", sheet.ErrUsage, err)
	}
	var err1, err2 error
	o.targets, err1 = choose("-targets", *targets+","+direct, allTargets())
	o.only, err2 = choose("-only", *only, allExperiments())
	if err := errors.Join(err1, err2); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.slice < 10*time.Millisecond || f.NArg() > 0 {
		return o, fmt.Errorf("%w: -rounds is at least 1, -slice at least 10ms, and there are no other arguments", sheet.ErrUsage)
	}
	return o, nil
}

func allExperiments() []string {
	return []string{oneConn, paced, streams, saturation, memory}
}

// choose keeps the known names of a comma-separated list, in their known order.
func choose(flagName, list string, known []string) ([]string, error) {
	wanted := strings.Split(list, ",")
	for i, name := range wanted {
		wanted[i] = strings.TrimSpace(name)
		if !slices.Contains(known, wanted[i]) {
			return nil, fmt.Errorf("%w: %s: %q is not one of %s", sheet.ErrUsage, flagName, wanted[i], strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(known), func(name string) bool { return !slices.Contains(wanted, name) }), nil
}
