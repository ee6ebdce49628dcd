package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	overflowModels = 8
	overflowTokens = 5 // of an answer: about 80 ms, so about 10 requests in flight on each server at 1,000 requests/s
)

// falseOverflow measures how many requests more than with one router leave their home because routers see each other's
// loads late.
func falseOverflow(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: fmt.Sprintf("Overflow with a fixed prefix length at %v requests/s in total, %d model servers", s.rate, overflowModels),
		Notes: []string{
			"share of decisions that are overflow; the same requests at the same times and the same homes for all, in slices in turn",
			"false: the difference to one replica, in points; its own standard error from the slices is beside it",
			"all clusters, clients and simulated model servers (speed of a real one) in this process",
		},
		Columns: []string{"overflow_%", "false_points", "error_points", "in_flight_per_server", "requests", "failed", "late_p99_ms"},
	}
	salt, err := s.fixedSalt()
	if err != nil {
		return t, err
	}
	m, err := startModels(ctx, overflowModels, 1)
	if err != nil {
		return t, err
	}
	var clusters []*local
	stop := func() error {
		var errs []error
		for _, c := range clusters {
			errs = append(errs, c.stop())
		}
		return errors.Join(append(errs, m.stop())...)
	}
	for _, n := range s.size.overflowReplicas {
		s.progress.step("overflow, starting %d replicas", n)
		c, err := startLocal(ctx, s, n, m.backends, salt)
		if err != nil {
			return t, errors.Join(fmt.Errorf("%d replicas: %w", n, err), stop())
		}
		clusters = append(clusters, c)
	}
	results := make([][]outcome, len(clusters))
	bodies := prompts(2000, overflowTokens)
	for round := range s.size.slices + 1 { // the first one warms up
		for i, c := range clusters {
			s.progress.step("overflow, round %d of %d, %d replicas", round, s.size.slices, len(c.routers))
			l := load{rate: s.rate, over: s.size.slice, seed: uint64(round), prompts: bodies}
			if out := l.run(ctx, c.client, c.routers); round > 0 {
				results[i] = append(results[i], out)
			}
		}
	}
	for i, c := range clusters {
		overflowRow(&t, s, len(c.routers), results[i], results[0])
	}
	return t, errors.Join(ctx.Err(), stop())
}

// overflowRow compares the slices of n replicas with the same ones of a single replica.
func overflowRow(t *table, s *session, n int, own, single []outcome) {
	var all outcome
	var differences []float64
	for i, out := range own {
		all.merge(out)
		differences = append(differences, overflowShare(out)-overflowShare(single[i]))
	}
	if all.failed > 0 {
		t.fails(fmt.Sprintf("%d replicas: %s", n, all.example))
	}
	mean, deviation := meanOf(differences)
	var busy time.Duration
	for _, took := range all.took {
		busy += took
	}
	values := map[string]float64{
		"overflow_%": overflowShare(all), "requests": float64(all.sent), "failed": float64(all.failed), "late_p99_ms": ms(percentile(all.late, 99)),
		// Little's law
		"in_flight_per_server": s.rate * busy.Seconds() / float64(max(1, len(all.took))) / overflowModels,
	}
	if n > 1 {
		values["false_points"], values["error_points"] = mean, deviation/math.Sqrt(float64(len(own)))
	}
	t.add(fmt.Sprintf("%d replicas", n), values)
}

func overflowShare(o outcome) float64 { return share(o.decisions["overflow"], len(o.took)) }

// meanOf returns the mean and the standard deviation.
func meanOf(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(max(1, len(values)-1)))
}
