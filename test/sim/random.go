package sim

import (
	"math/rand/v2"
	"time"
)

// Mix is what a random plan is made of.
type Mix struct {
	Actions []Action      // each is as likely as the others; none: Split, Kill and Pause
	Every   time.Duration // mean time between two steps; 0: 10 s
	For     time.Duration // mean time until one is healed; 0: 5 s
	Apart   bool          // one fault at a time
}

// RandomPlan draws faults of some hosts that begin within d; each is healed, the last one possibly after d. It depends on r
// and its arguments alone.
func RandomPlan(r *rand.Rand, hosts []string, d time.Duration, m Mix) Plan {
	if len(m.Actions) == 0 {
		m.Actions = []Action{Split, Kill, Pause}
	}
	every, lasts := max(m.Every, 0), max(m.For, 0)
	if every == 0 {
		every = 10 * time.Second
	}
	if lasts == 0 {
		lasts = 5 * time.Second
	}
	var p Plan
	for at := around(r, every); at < d; at += around(r, every) {
		s := randomStep(r, hosts, m.Actions[r.IntN(len(m.Actions))])
		s.At, s.For = at, around(r, lasts)
		p = append(p, s)
		if m.Apart {
			at += s.For
		}
	}
	return p
}

// around is an exponentially distributed time of that mean, 10 ms at least, in whole milliseconds so that it reads well.
func around(r *rand.Rand, mean time.Duration) time.Duration {
	d := time.Duration(r.ExpFloat64() * float64(mean)).Round(time.Millisecond)
	return max(d, 10*time.Millisecond)
}

func randomStep(r *rand.Rand, hosts []string, do Action) Step {
	s := Step{Do: do}
	order := r.Perm(len(hosts))
	links, _ := do.links()
	if !links || len(hosts) < 2 {
		s.Hosts = []string{hosts[order[0]]}
	} else {
		first := 1 + r.IntN(len(hosts)-1)
		for i, j := range order {
			if i < first {
				s.Hosts = append(s.Hosts, hosts[j])
			} else {
				s.Other = append(s.Other, hosts[j])
			}
		}
	}
	switch do {
	case Slow:
		s.Delay, s.Loss = around(r, 100*time.Millisecond), float64(r.IntN(50))/100
	case Clock:
		s.Delay = around(r, time.Hour) - time.Hour
	default:
	}
	return s
}
