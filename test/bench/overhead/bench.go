package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// session is one run of the benchmark.
type session struct {
	options
	out      io.Writer
	stable   *stable
	targets  []*target // running, direct first
	progress *progress
	report   report
}

// bench runs the chosen experiments and prints each table as soon as it is there.
func bench(ctx context.Context, o options, out io.Writer) (*report, error) {
	begin := time.Now()
	s := &session{options: o, out: out, progress: newProgress(os.Stderr)}
	s.report = report{
		Time: begin.UTC(), Rounds: o.rounds, SliceMs: float64(o.slice.Milliseconds()), Machine: describeMachine(ctx),
	}
	dir, err := os.MkdirTemp("", "warmring-overhead-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	backends, err := startBackend(ctx)
	if err != nil {
		return nil, err
	}
	defer backends.stop() //nolint:errcheck // it has nothing left to say
	s.stable = &stable{dir: dir, backends: backends.addrs}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	defer s.stopTargets()
	if err := s.startTargets(ctx); err != nil {
		return nil, err
	}
	if err := s.measure(ctx); err != nil {
		return nil, err
	}
	s.report.Gates = judge(s.report.Rows)
	s.report.Machine.LoadAfter = sheet.LoadAverage()
	s.report.Seconds = time.Since(begin).Seconds()
	return &s.report, s.say(verdicts(s.report.Gates))
}

func (s *session) say(text string) error {
	_, err := io.WriteString(s.out, text)
	return err
}

// prepare makes the probe that tells when a target is ready, builds warmring if it is wanted,
// and prints what the run stands on.
func (s *session) prepare(ctx context.Context) error {
	var err error
	if s.stable.probe, err = newScript(load{bodySize: 4 << 10}); err != nil {
		return err
	}
	if slices.Contains(s.options.targets, warmring) || slices.Contains(s.options.targets, warmringAuto) {
		s.stable.binary = filepath.Join(s.stable.dir, "warmring")
		if err := build(ctx, s.stable.binary); err != nil {
			return err
		}
		s.report.Machine.Versions[warmring] = version(ctx, s.stable.binary, "version")
	}
	return s.say(s.report.Machine.String())
}

// startTargets starts the chosen targets. After an error those that run are still in s.targets.
func (s *session) startTargets(ctx context.Context) error {
	for _, name := range s.options.targets {
		t, err := s.stable.start(ctx, name)
		if err == nil {
			s.targets = append(s.targets, t)
			continue
		}
		if !errors.Is(err, errNotInstalled) {
			return err
		}
		if s.require {
			return fmt.Errorf("%w (%s)", err, howToInstall)
		}
		s.report.Missing = append(s.report.Missing, name)
		if err := s.say(fmt.Sprintf("%s is left out: not installed (%s)\n", name, howToInstall)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) stopTargets() {
	for _, t := range s.targets {
		t.stop()
	}
}

func (s *session) measure(ctx context.Context) error {
	defer s.progress.clear()
	r := &runner{
		rounds: s.rounds, slice: s.slice, targets: s.targets, progress: s.progress,
		rng: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)),
	}
	chosen := slices.DeleteFunc(timed(), func(e experiment) bool { return !slices.Contains(s.only, e.name) })
	if slices.Contains(s.only, memory) {
		s.progress.total = s.memorySlices() * (len(s.targets) - 1)
	}
	for _, e := range chosen {
		s.progress.total += len(e.loads) * (s.rounds + 1) * len(s.targets)
	}
	for _, e := range chosen {
		rows, err := r.run(ctx, e)
		if err != nil {
			return err
		}
		if err := s.record(e, rows); err != nil {
			return err
		}
	}
	if !slices.Contains(s.only, memory) {
		return nil
	}
	return s.weigh(ctx)
}

// memorySlices is how many slices long the memory of one proxy takes.
func (s *session) memorySlices() int { return int(memoryTakes / s.slice) }

// weigh measures the memory of one proxy after the other.
func (s *session) weigh(ctx context.Context) error {
	var rows []row
	for _, t := range s.targets {
		if t.child == nil {
			continue
		}
		s.progress.step(fmt.Sprintf("%s, %s", memory, t.name), s.memorySlices())
		row, err := measureMemory(ctx, s.stable, t.name)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", memory, t.name, err)
		}
		rows = append(rows, row)
	}
	return s.record(experiment{name: memory, title: "Resident memory, 1,000 streams open"}, rows)
}

func (s *session) record(e experiment, rows []row) error {
	s.progress.clear()
	s.report.Rows = append(s.report.Rows, rows...)
	return s.say(table(e, rows))
}
