// Command cluster measures how a cluster of routers agrees, shares its view, costs and heals, and holds the figures
// against the gates of the project.
//
// Everything is on the loopback interface of one machine. Where the routers' own processor time counts, or one of them is
// killed, each is a process of its own; elsewhere all are in this process, which can then see them from inside. Partitions
// are in virtual time (test/sim), since loopback cannot be cut.
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

	"github.com/warmring/warmring/test/bench/sheet"
)

// routerCommand is the first argument that turns this program into a router.
const routerCommand = "router"

var errGate = errors.New("gates not reached")

type options struct {
	quick bool
	rate  float64
	only  []string
	out   string
	gate  bool
}

func main() { os.Exit(sheet.Main("cluster", os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == routerCommand {
		return serveRouter(ctx, args[1], os.Stdin, out)
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
	if n := r.missed(); o.gate && (n > 0 || len(r.Gates) == 0) {
		return fmt.Errorf("%w: %d of %d", errGate, n, len(r.Gates))
	}
	return nil
}

func parseOptions(args []string) (options, error) {
	o := options{}
	names := make([]string, 0, len(experiments()))
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "small counts: about a minute instead of a quarter of an hour")
	f.Float64Var(&o.rate, "rate", 1000, "requests a second, in total, of the loads of view, overflow and cost")
	only := f.String("only", strings.Join(names, ","), "experiments to run")
	f.StringVar(&o.out, "out", "build/bench/cluster.json", "file for the figures")
	f.BoolVar(&o.gate, "gate", false, "exit with 1 if a gate is not reached")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", sheet.ErrUsage, err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: there are no arguments but flags", sheet.ErrUsage)
	}
	if !(o.rate > 0 && o.rate <= 100_000) {
		return o, fmt.Errorf("%w: -rate %v: must be above 0 and at most 100000", sheet.ErrUsage, o.rate)
	}
	for name := range strings.SplitSeq(*only, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			return o, fmt.Errorf("%w: -only: %q is not one of %s", sheet.ErrUsage, name, strings.Join(names, ", "))
		}
		o.only = append(o.only, name)
	}
	return o, nil
}
