package modelserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Kind names a way to misbehave.
type Kind string

// The kinds of faults. Hang, Stall, Die and Status concern inference requests;
// the others concern the whole server.
const (
	None   Kind = ""       // answer as a healthy server
	Refuse Kind = "refuse" // refuse new connections and drop those without a request
	Hang   Kind = "hang"   // read the request and send nothing, not even headers
	Stall  Kind = "stall"  // stop sending after Fault.After events
	Die    Kind = "die"    // reset the connection after Fault.After events
	Status Kind = "status" // answer with Fault.Status and an error body
	Slow   Kind = "slow"   // engine steps take Fault.Factor times as long
	Wedged Kind = "wedged" // health is fine, but no token is ever made
	Idle   Kind = "idle"   // close connections that were idle for Fault.Delay
)

// Fault is what is wrong with a server, at most one thing at a time. A body
// that is not streamed counts as one event and is cut in its middle.
type Fault struct {
	Kind       Kind          `json:"kind"`
	After      int           `json:"after,omitempty"`       // Stall, Die: events sent before; Die after 0 sends no headers
	Status     int           `json:"status,omitempty"`      // Status: 400 to 599
	RetryAfter int           `json:"retry_after,omitempty"` // Status: seconds in the Retry-After header; 0 for no header
	Factor     float64       `json:"factor,omitempty"`      // Slow: over 0
	Delay      time.Duration `json:"delay_ns,omitempty"`    // Idle: 0 or more
	Times      int           `json:"times,omitempty"`       // Hang, Stall, Die, Status: requests it concerns; 0 for all
	Probes     bool          `json:"probes,omitempty"`      // Hang, Status: concerns health, ping, models and metrics too
}

// Validate returns nil or all errors of f joined, each beginning with the name
// of its field.
func (f Fault) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch f.Kind {
	case None, Refuse, Hang, Stall, Die, Wedged:
	case Status:
		if f.Status < 400 || f.Status > 599 {
			fail("Status: is %d, must be 400 to 599", f.Status)
		}
	case Slow:
		if f.Factor <= 0 || math.IsInf(f.Factor, 0) || math.IsNaN(f.Factor) {
			fail("Factor: is %v, must be over 0", f.Factor)
		}
	case Idle:
		if f.Delay < 0 {
			fail("Delay: is %v, must not be negative", f.Delay)
		}
	default:
		fail("Kind: %q is not known", f.Kind)
	}
	if f.After < 0 {
		fail("After: is %d, must not be negative", f.After)
	}
	if f.RetryAfter < 0 {
		fail("RetryAfter: is %d, must not be negative", f.RetryAfter)
	}
	if f.Times < 0 {
		fail("Times: is %d, must not be negative", f.Times)
	}
	return errors.Join(errs...)
}

// pace is the factor on the engine's steps that f asks for.
func (f Fault) pace() float64 {
	switch f.Kind {
	case Slow:
		return f.Factor
	case Wedged:
		return math.Inf(1)
	default:
		return 1
	}
}

// idleLimit is how long f lets a connection idle; negative for ever.
func (f Fault) idleLimit() time.Duration {
	switch f.Kind {
	case Refuse:
		return 0
	case Idle:
		return f.Delay
	default:
		return -1
	}
}

// faults hands the fault in force to requests.
type faults struct {
	mu      sync.Mutex // guards all below
	fault   Fault
	left    int           // requests it still concerns, when fault.Times is set
	changed chan struct{} // closed when another fault takes its place
}

// set puts f in force and lets requests that hang or stall go on.
func (s *faults) set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
	}
	s.fault, s.left, s.changed = f, f.Times, make(chan struct{})
}

// current returns the fault in force.
func (s *faults) current() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// take returns what one request has to suffer.
func (s *faults) take(probe bool) grief {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.fault.Kind {
	case Stall, Die:
		if probe {
			return grief{}
		}
	case Hang, Status:
		if probe && !s.fault.Probes {
			return grief{}
		}
	default:
		return grief{}
	}
	if s.fault.Times > 0 {
		if s.left == 0 {
			return grief{}
		}
		s.left--
	}
	return grief{Fault: s.fault, changed: s.changed}
}

// grief is the fault of one request.
type grief struct {
	Fault
	changed <-chan struct{}
}

// hold blocks until the fault is replaced, or fails when ctx ends first.
func (g grief) hold(ctx context.Context) error {
	select {
	case <-g.changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
