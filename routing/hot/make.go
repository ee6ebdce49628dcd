package hot

import (
	"cmp"
	"math"
	"slices"
)

// Run is a stretch of consecutive chunks of one chain with nearly equal traffic.
type Run struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Length  int    `json:"length"`  // chunks from First to Last
	Servers int    `json:"servers"` // how many they are spread over
}

// Config says for whom a table is made.
type Config struct {
	Servers   int     // model servers that take traffic; below 2 nothing is hot
	Alpha     float64 // the most servers' worth of room for 1/Servers of the traffic; 0: 8
	Capacity  float64 // tokens in the KV cache of the smallest server; 0: unknown
	MaxRuns   int     // 0: 8 a server, at least 64
	MinVisits float64 // that a chunk needs to enter, or to be spread over more servers; 0: 6
}

const (
	alphaMost, alphaLeast = 8, 2
	// reuse is how many times over a copy's room should be written before alpha falls: KV/(24 w), design of the tree.
	reuse = 24
)

func (c Config) withDefaults() Config {
	c.Servers = max(c.Servers, 1)
	if !(c.Alpha > 0) {
		c.Alpha = alphaMost
	}
	if c.MaxRuns <= 0 {
		c.MaxRuns = max(64, 8*c.Servers)
	}
	if !(c.MinVisits > 0) {
		c.MinVisits = 6
	}
	return c
}

// alpha is so low that copies are used again before they are evicted.
func (c Config) alpha(written float64) float64 {
	if !plausible(c.Capacity) || !plausible(written) {
		return c.Alpha
	}
	return min(c.Alpha, max(alphaLeast, c.Capacity/(reuse*written)))
}

// Made is a new table and what it is made of.
type Made struct {
	Runs     []Run   // by First; never nil
	Chunks   int     // that these runs stand for
	Cut      int     // runs that MaxRuns left out
	Alpha    float64 // that was used
	Requests float64 // of all reports
}

// Make makes a table of what the routers counted, given the table before. A chunk with a share p of the requests is to be
// spread over min(Servers, ceil(alpha p Servers)) servers and is in the table if those are two or more. A report or
// count that cannot be is left out. It takes O(n log n) for n counts, whatever they say.
func Make(before []Run, reports []Report, cfg Config) Made {
	cfg = cfg.withDefaults()
	sum := merge(reports)
	made := Made{Runs: []Run{}, Alpha: cfg.alpha(sum.Written), Requests: sum.Requests}
	if cfg.Servers < 2 || sum.Requests == 0 {
		return made
	}
	f := grow(sum)
	f.remember(before)
	unit := sum.Requests / (made.Alpha * float64(cfg.Servers))
	f.divide(cfg, unit)
	runs := f.runs()
	made.Cut = max(0, len(runs)-cfg.MaxRuns)
	// A run has never a higher rank than the one before it on its chain, which is also listed before it. So in a stable
	// order by rank the cut leaves no run without the way to it.
	slices.SortStableFunc(runs, func(a, b stretch) int { return cmp.Compare(b.rank, a.rank) })
	for _, r := range runs[:len(runs)-made.Cut] {
		made.Runs = append(made.Runs, r.Run)
		made.Chunks += r.Length
	}
	slices.SortFunc(made.Runs, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	return made
}

// wanted is how many servers a chunk with so many visits is spread over that was spread over held so far. Each server is
// there for a unit of visits.
func (c Config) wanted(visits, unit float64, held int) int {
	held = min(held, c.Servers)
	if visits >= c.MinVisits && grows(visits, unit, held) || shrinks(visits, unit, held) {
		return int(min(math.Ceil(visits/unit), float64(c.Servers)))
	}
	return held
}
