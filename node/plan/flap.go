package plan

import (
	"math"
	"time"
)

// Flap damping, after that of routes in BGP (RFC 2439): each flap adds to a penalty that fades, and the wait before the
// next return grows with it.
const (
	halving   = time.Minute      // the penalty's half-life
	firstWait = 10 * time.Second // at a penalty of 1
	longest   = 5 * time.Minute
	// suspicious is the penalty from which on a backend waits. One move or restart a minute stays below it.
	suspicious = 1.5
	forgotten  = 0.25
)

// flap is how often a backend came and went.
type flap struct {
	penalty float64 // at the latest flap: 1 and what was left of earlier ones
	at      time.Time
}

func (f flap) now(now time.Time) float64 {
	return f.penalty * math.Exp2(-float64(max(0, now.Sub(f.at)))/float64(halving))
}

// wait is how long it stays away after the latest flap: 10 s, doubled with each point of the penalty, 5 min at most.
func (f flap) wait() time.Duration {
	if f.penalty < suspicious {
		return 0
	}
	return min(longest, time.Duration(float64(firstWait)*math.Exp2(min(f.penalty, 16)-1)))
}

// over reports that the flap no longer matters.
func (f flap) over(now time.Time) bool {
	return f.now(now) < forgotten && now.Sub(f.at) >= f.wait()
}

func (p *Planner) flapped(id string, now time.Time) {
	p.flaps[id] = flap{penalty: 1 + p.flaps[id].now(now), at: now}
}
