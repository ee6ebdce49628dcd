package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmring/warmring/test/workload"
)

// stage is runs of every workload with every policy and number of routers.
type stage struct {
	workloads, policies []string
	routers             []int
	length              float64 // share of a workload's time
}

// stages are what the gates need: the usual workloads in full, the others with three routers.
func stages() []stage {
	usual := []string{"a1", "a2", "b", "c", "d", "e1"}
	var others []string
	for _, k := range workload.Kinds() {
		if !slices.Contains(usual, k.Name) {
			others = append(others, k.Name)
		}
	}
	return []stage{
		{usual, policies(), []int{1, 3, 8}, 1},
		{others, policies(), []int{3}, 1},
	}
}

// shortStages take less than a minute, and show whether something that worked no longer does.
func shortStages() []stage {
	compared := []string{leastPolicy, ownPolicy, autoPolicy, oraclePolicy}
	return []stage{
		{[]string{"a1", "a2", "b", "c", "d"}, compared, []int{3}, shortLength},
		{[]string{"c"}, []string{autoPolicy}, []int{1, 8}, shortLength},
		{[]string{"unique", "growing"}, compared, []int{3}, shortLength},
		{[]string{"cold-c"}, compared, []int{3}, 1},
	}
}

// shortLength is the share of a workload's time that a short run plays.
const shortLength = 0.4

// plan is the jobs of the stages, as far as the options ask for them. A workload whose trace is missing is left out.
func plan(o *options) []job {
	all := stages()
	if o.short {
		all = shortStages()
	}
	var jobs []job
	for _, s := range all {
		if o.length > 0 {
			s.length = o.length
		}
		for _, w := range s.workloads {
			if !o.wants(w) || w == tracedWorkload && o.trace == "" {
				continue
			}
			jobs = append(jobs, s.jobs(w, o)...)
		}
	}
	return jobs
}

// tracedWorkload needs a file that is not part of the repository.
const tracedWorkload = "e1"

func (s *stage) jobs(w string, o *options) []job {
	routers, compared := s.routers, s.policies
	if len(o.routers) > 0 {
		routers = o.routers
	}
	if len(o.policies) > 0 {
		compared = o.policies
	}
	var jobs []job
	for _, n := range routers {
		for _, p := range compared {
			for _, seed := range o.seeds {
				jobs = append(jobs, job{w, p, seed, n, s.length})
			}
		}
	}
	return jobs
}

// wants says whether a workload is asked for.
func (o *options) wants(workload string) bool {
	if len(o.workloads) > 0 {
		return slices.Contains(o.workloads, workload)
	}
	return !o.short || workload != tracedWorkload // a short run has no use for the trace
}

// check finds mistakes in names.
func (o *options) check() error {
	for _, p := range o.policies {
		if _, err := resolve(p, ""); err != nil {
			return err
		}
	}
	kinds := workload.Kinds()
	for _, w := range o.workloads {
		if !slices.ContainsFunc(kinds, func(k workload.Kind) bool { return k.Name == w }) {
			names := make([]string, len(kinds))
			for i := range kinds {
				names[i] = kinds[i].Name
			}
			return fmt.Errorf("unknown workload %q: want some of %s", w, strings.Join(names, ", "))
		}
	}
	return nil
}
