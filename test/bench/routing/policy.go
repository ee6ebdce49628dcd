package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warmring/warmring/routing"
)

// The policies that are compared. "fixed-N" is any other prefix length, without a threshold.
const (
	randomPolicy = "random"
	leastPolicy  = "least"
	ownPolicy    = "least-own"
	fixedPolicy  = "fixed-"
	bestPolicy   = "best"
	badPolicy    = "bad"
	autoPolicy   = "auto"
	oraclePolicy = "oracle"
)

func policies() []string {
	return []string{randomPolicy, leastPolicy, ownPolicy, bestPolicy, badPolicy, autoPolicy, oraclePolicy}
}

// lengths are the prefix lengths that did best and worst of 1,024, 4,096, 16,384 and 65,536 characters, by the mean time to
// the first token, on seed 1 with three routers: hindsight that an operator does not have.
func lengths(workload string) (best, bad int) {
	switch workload {
	case "b", "e1", "stall-a":
		return 1024, 65536
	case "shift", "cold-one":
		return 1024, 16384
	case "stall-c":
		return 1024, 4096
	case "tenant":
		return 4096, 1024
	case "c", "cold-c", "fleet-c", "double-c":
		return 16384, 1024
	case "double-a":
		return 16384, 65536
	case "growing":
		return 65536, 16384
	default:
		return 4096, 65536
	}
}

// resolve is the routing policy of a name. The oracle has none.
func resolve(name, workload string) (routing.Policy, error) {
	best, bad := lengths(workload)
	fixed := func(n int) routing.Policy {
		return routing.Policy{Strategy: routing.PrefixAware, PrefixLength: n}
	}
	switch name {
	case randomPolicy:
		return routing.Policy{Strategy: routing.Random}, nil
	case leastPolicy, ownPolicy:
		return routing.Policy{Strategy: routing.LeastOutstandingRequests}, nil
	case autoPolicy:
		return routing.Policy{Strategy: routing.PrefixAware}, nil
	case bestPolicy:
		return fixed(best), nil
	case badPolicy:
		return fixed(bad), nil
	case oraclePolicy:
		return routing.Policy{}, nil
	}
	length, ok := strings.CutPrefix(name, fixedPolicy)
	if n, err := strconv.Atoi(length); ok && err == nil && n >= routing.MinPrefixLength && n <= routing.MaxPrefixLength {
		return fixed(n), nil
	}
	return routing.Policy{}, fmt.Errorf("unknown policy %q: want one of %s, or fixed-N with N from %d to %d",
		name, strings.Join(policies(), ", "), routing.MinPrefixLength, routing.MaxPrefixLength)
}
