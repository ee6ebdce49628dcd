package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

var errGate = errors.New("gates missed")

type options struct {
	seeds     []uint64
	workloads []string // empty: all
	policies  []string // empty: all
	routers   []int    // empty: what the gates need
	length    float64  // 0: what the gates need
	short     bool
	gate      bool
	trace     string
	links     links
	out       string
}

func main() { os.Exit(sheet.Main("routing", os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	began := time.Now()
	r := &report{Time: began, Short: o.short, Gap: ms(o.links.gap), Delay: ms(o.links.delay), Machine: sheet.ThisMachine()}
	jobs := plan(o)
	head := fmt.Sprintf("%s\n%d runs in virtual time\n", r.Machine, len(jobs))
	if o.trace == "" && o.wants(tracedWorkload) {
		head += tracedWorkload + " is left out: -trace FILE names Mooncake's conversation trace, which is not part of the repository\n"
	}
	if _, err := fmt.Fprintln(out, head); err != nil {
		return err
	}
	if r.Rows, err = playAll(ctx, jobs, o, watcher(os.Stderr)); err != nil {
		return err
	}
	j := &judge{summary: summarise(r.Rows)}
	if o.short {
		j.short()
	} else {
		j.full()
	}
	r.Gates = j.gates
	r.Seconds = time.Since(began).Seconds()
	r.Machine.LoadAfter = sheet.LoadAverage()
	if err := sheet.Save(o.out, r); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n%.0f s; all figures in %s\n", j.summary, table(r.Gates), r.Seconds, o.out); err != nil {
		return err
	}
	if n := r.missed(); n > 0 && (o.short || o.gate) {
		return fmt.Errorf("%w: %d of %d", errGate, n, len(r.Gates))
	}
	return nil
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("routing", flag.ContinueOnError)
	seeds := f.String("seeds", "1,2", "seeds of the workloads (-short: the first)")
	workloads := f.String("workloads", "", "workloads to run; empty: all")
	policies := f.String("policies", "", "policies to compare, also fixed-N; empty: "+strings.Join(policies(), ","))
	routers := f.String("routers", "", "numbers of routers; empty: 1, 3 and 8 with the usual workloads, else 3")
	f.Float64Var(&o.length, "length", 0, "share of each workload's time to play; 0: all, or what -short needs")
	f.BoolVar(&o.short, "short", false, "a few short runs, and exit with 1 if a gate is missed")
	f.BoolVar(&o.gate, "gate", false, "exit with 1 if a gate is missed")
	f.StringVar(&o.trace, "trace", "", "file with Mooncake's conversation trace, for "+tracedWorkload)
	f.DurationVar(&o.links.gap, "gap", 100*time.Millisecond, "time between two messages of a router")
	f.DurationVar(&o.links.delay, "delay", 20*time.Millisecond, "how long a message takes")
	f.StringVar(&o.out, "o", "build/bench/routing.json", "file for the figures")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", sheet.ErrUsage, err)
	}
	o.workloads, o.policies = list(*workloads), list(*policies)
	for _, s := range list(*seeds) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return o, fmt.Errorf("%w: -seeds %s: want numbers from 0 on", sheet.ErrUsage, s)
		}
		o.seeds = append(o.seeds, n)
	}
	for _, s := range list(*routers) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1000 {
			return o, fmt.Errorf("%w: -routers %s: want 1 to 1000", sheet.ErrUsage, s)
		}
		o.routers = append(o.routers, n)
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%w: there are no arguments but flags", sheet.ErrUsage)
	case len(o.seeds) == 0:
		return o, fmt.Errorf("%w: -seeds: at least one", sheet.ErrUsage)
	case !(o.length >= 0 && o.length <= 10):
		return o, fmt.Errorf("%w: -length %v: want 0 to 10", sheet.ErrUsage, o.length)
	case o.links.gap <= 0 || o.links.delay < 0:
		return o, fmt.Errorf("%w: -gap must be above 0 and -delay not below", sheet.ErrUsage)
	}
	if o.short {
		o.seeds = o.seeds[:1]
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("%w: %w", sheet.ErrUsage, err)
	}
	return o, nil
}

// watcher is f if somebody watches it.
func watcher(f *os.File) io.Writer {
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return f
	}
	return io.Discard
}

// list splits at commas.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
