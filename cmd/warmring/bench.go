package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/test/bench/sheet"
	"github.com/warmring/warmring/test/load"
)

// Bounds of a bench.
const (
	benchMaxClients = 10_000
	benchMaxRuns    = 64
)

type bench struct {
	work               workloadFlags
	urls, strategies   []string
	model, keyEnv      string
	duration, warmUp   time.Duration
	timeout            time.Duration
	jsonFile, htmlFile string
	admin              client
}

// benchRun is one run of a bench.
type benchRun struct {
	name   string
	target load.Target
	policy *policy // nil: as it is
}

func newBench() *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Send a workload to routers or model servers and compare them",
		Long: `Send a workload in real time to anything that speaks OpenAI's chat completions, and show how fast first tokens came, how much
of the prompts was cached and how the requests were spread. Several targets, or several strategies of one warmring,
get the same sessions one after the other. Each run's sessions begin with a word of its own, so that no run profits from what
an earlier one left in the caches.

Ctrl-C ends it; what was measured until then is reported, and a changed strategy is restored.

Workloads, as they are with --rate 1 and --scale 1:
` + describeWorkloads(),
		Example: `  warmring demo          # in another terminal
  warmring bench --workload c --scale 0.25 --duration 1m --html report.html
  warmring bench --strategies RANDOM,LEAST_OUTSTANDING_REQUESTS,PREFIX_AWARE:4096,PREFIX_AWARE:auto
  warmring bench --url ours=http://10.0.0.1:8080 --url other=http://10.0.0.2:8000/v1 --model llama`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&b.urls, "url", []string{"http://127.0.0.1:8080/v1"},
		"OpenAI base `URL`; or NAME=URL, several times, to compare; or NAME=URL,URL for several routers of one cluster")
	f.StringVar(&b.model, "model", "", "model to ask for; may be left out where there is only one")
	b.work.addTo(cmd)
	f.DurationVar(&b.duration, "duration", time.Minute, "of each run")
	f.DurationVar(&b.warmUp, "warm-up", 0, "how much of each run's beginning is left out of the figures")
	f.DurationVar(&b.timeout, "timeout", time.Minute, "of one request; 0: none")
	f.StringVar(&b.keyEnv, "api-key-env", "", "`name` of an environment variable with the API key; none is sent without it")
	f.StringVar(&b.jsonFile, "json", "", "`file` for the figures as JSON")
	f.StringVar(&b.htmlFile, "html", "", "`file` for a report with plots, one HTML page")
	f.StringSliceVar(&b.strategies, "strategies", nil,
		"compare these strategies, set through --admin and restored at the end: RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE:auto or PREFIX_AWARE:CHARACTERS")
	f.StringVar(&b.admin.admin, "admin", "http://127.0.0.1:9080", "`URL` of a router's admin listener, for --strategies")
	f.StringVar(&b.admin.tokenFile, "token-file", "", "`file` with the admin token; else WARMRING_ADMIN_TOKEN holds it")
	return cmd
}

func (b *bench) validate() error {
	switch {
	case b.duration <= 0:
		return usagef("--duration %v: must be above 0", b.duration)
	case b.warmUp < 0 || b.warmUp >= b.duration:
		return usagef("--warm-up %v: must be 0 or more, and less than --duration", b.warmUp)
	case b.keyEnv != "" && os.Getenv(b.keyEnv) == "":
		return usagef("--api-key-env %s: this environment variable is not set", b.keyEnv)
	case b.timeout < 0:
		return usagef("--timeout %v: must not be negative", b.timeout)
	case len(b.urls) > benchMaxRuns || len(b.strategies) > benchMaxRuns:
		return usagef("at most %d runs can be compared", benchMaxRuns)
	case len(b.strategies) > 0 && len(b.urls) > 1:
		return usagef("--strategies compares the strategies of one --url")
	}
	return b.work.validate()
}

// run measures each run in turn. What was measured is reported also when something ends the bench early.
func (b *bench) run(cmd *cobra.Command) error {
	if err := b.validate(); err != nil {
		return err
	}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		// A terminal that is closed must not leave the fleet with a strategy that was only tried.
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
		defer stop()
		cmd.SetContext(ctx)
	}
	runs, err := b.runs()
	if err != nil {
		return err
	}
	if _, err := b.work.config(b.duration); err != nil {
		return err
	}
	if err := errors.Join(writable("--json", b.jsonFile), writable("--html", b.htmlFile)); err != nil {
		return err
	}
	if err := b.check(cmd, runs); err != nil {
		return err
	}
	report := load.Report{Started: time.Now(), Machine: sheet.ThisMachine(), Setup: b.settings(runs), Runs: []load.Summary{}}
	if len(b.strategies) == 0 {
		err = b.measure(cmd, runs, &report, nil)
	} else {
		err = b.compare(cmd, runs, &report)
	}
	if missing := len(runs) - len(report.Runs); missing > 0 && cmd.Context().Err() != nil {
		cmd.PrintErrf("stopped: %d of %d runs were not begun\n", missing, len(runs))
	}
	return errors.Join(err, b.publish(cmd, &report))
}

// check asks each target once. All strategies have the same one.
func (b *bench) check(cmd *cobra.Command, runs []benchRun) error {
	line := newLiveLine(cmd.ErrOrStderr())
	defer line.clear()
	for i := range runs {
		if i > 0 && len(b.strategies) > 0 {
			runs[i].target = runs[0].target
			continue
		}
		line.show("the first request to %s", strings.Join(runs[i].target.Bases, ", "))
		if err := runs[i].target.Check(cmd.Context()); err != nil {
			return benchAdvice(err)
		}
	}
	return nil
}

// runs are what the flags ask for: one for each target, or for each strategy of the only target.
func (b *bench) runs() ([]benchRun, error) {
	var runs []benchRun
	for _, text := range b.urls {
		name, list, named := strings.Cut(text, "=")
		if !named || strings.Contains(name, "/") { // the = of a URL
			name, list = strings.ReplaceAll(text, "http://", ""), text
		}
		to := load.Target{Model: b.model, Key: b.key()}
		for one := range strings.SplitSeq(list, ",") {
			base, err := load.ParseBase(one)
			if err != nil {
				return nil, usagef("--url %w", err)
			}
			to.Bases = append(to.Bases, base)
		}
		runs = append(runs, benchRun{name: name, target: to})
	}
	if len(b.strategies) == 0 {
		return runs, nil
	}
	target := runs[0].target
	runs = nil
	for _, text := range b.strategies {
		p, err := parsePolicy(text)
		if err != nil {
			return nil, usageError{err}
		}
		runs = append(runs, benchRun{name: text, target: target, policy: &p})
	}
	return runs, nil
}

func (b *bench) key() string {
	if b.keyEnv == "" {
		return ""
	}
	return os.Getenv(b.keyEnv)
}

// measure makes one run after the other, until ctx ends; prepare comes before each and may be nil.
func (b *bench) measure(cmd *cobra.Command, runs []benchRun, report *load.Report, prepare func(context.Context, *benchRun) ([]string, error)) error {
	ctx := cmd.Context()
	for i := range runs {
		var servers []string
		var err error
		if prepare != nil {
			servers, err = prepare(ctx, &runs[i])
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was stopped meanwhile, which is no failure
		}
		if err != nil {
			return err
		}
		place := fmt.Sprintf("%d/%d", i+1, len(runs))
		summary, err := b.one(ctx, &runs[i], newBenchProgress(cmd.ErrOrStderr(), place, runs[i].name, b.duration), servers)
		if err != nil {
			return err
		}
		report.Runs = append(report.Runs, summary)
	}
	return nil
}

func (b *bench) one(ctx context.Context, r *benchRun, p *benchProgress, servers []string) (load.Summary, error) {
	cfg, err := b.work.config(b.duration)
	if err != nil {
		return load.Summary{}, err
	}
	cfg.Target, cfg.Timeout, cfg.Tag, cfg.Progress = r.target, b.timeout, rand.Text(), p.show
	result := load.Run(ctx, cfg)
	summary := load.Summarise(r.name, &result, b.warmUp, servers)
	p.end(&summary)
	return summary, nil
}

// settings are what the runs have in common.
func (b *bench) settings(runs []benchRun) []load.Setting {
	all := append(b.work.settings(), load.Setting{Name: "duration", Value: b.duration.String()}, load.Setting{Name: "model", Value: runs[0].target.Model})
	for i := range b.urls { // strategies have one
		name := "target"
		if len(b.urls) > 1 {
			name = runs[i].name
		}
		all = append(all, load.Setting{Name: name, Value: strings.Join(runs[i].target.Bases, ", ")})
	}
	if b.warmUp > 0 {
		all = append(all, load.Setting{Name: "warm-up left out", Value: b.warmUp.String()})
	}
	return all
}

// publish prints the table and writes the files.
func (b *bench) publish(cmd *cobra.Command, report *load.Report) error {
	if len(report.Runs) == 0 {
		return nil
	}
	report.Machine.LoadAfter = sheet.LoadAverage()
	out := cmd.OutOrStdout()
	_, err := fmt.Fprintf(out, "\n%s", report.Table())
	p := palette(isTerminal(out))
	for _, note := range report.Notes() {
		_, noteErr := fmt.Fprintf(out, "  %s\n", p.yellow(note))
		err = errors.Join(err, noteErr)
	}
	if b.jsonFile != "" {
		err = errors.Join(err, sheet.Save(b.jsonFile, report))
	}
	if b.htmlFile != "" {
		err = errors.Join(err, saveHTML(b.htmlFile, report))
	}
	for _, r := range report.Runs {
		if r.Requests > r.Errors {
			return err
		}
	}
	return errors.Join(err, errors.New("no request was answered; what is below the table says why"))
}

func saveHTML(file string, report *load.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(f), f.Close())
}

// writable fails before the runs if a flag's file could not be written after them. What is in it stays until then.
func writable(flag, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return f.Close()
}
