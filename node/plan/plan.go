// Package plan decides, on the leader, what the fleet's next change is. [Planner.Next] is a function of its input and of
// what the planner saw before; it does no I/O, reads no clock and starts no goroutine.
//
// Who listed a backend owns it ([routing.Backend].Source). A source's backends come, move and go as the source says;
// those with no source are people's, and only their health is judged here. A drain that has a source was caused by the
// source and ends when that lists the backend again; one that people ask for makes the backend theirs.
package plan

import (
	"time"

	"github.com/warmring/warmring/routing"
)

// Lease is the source of backends that register themselves. It is the only source whose empty list means that there are
// none: DNS that answers nothing is broken more often than right.
const Lease = "lease"

// Found is a backend that a live source lists.
type Found struct {
	ID          string  `json:"id"`
	URL         string  `json:"url"`                    // http:// or https://, host:port
	Endpoint    string  `json:"endpoint,omitempty"`     // empty: the only one
	Variant     string  `json:"variant,omitempty"`      // empty: the endpoint's first
	Weight      float64 `json:"weight"`                 // above 0
	MaxInflight int     `json:"max_inflight,omitempty"` // 0: no limit
	Source      string  `json:"source"`                 // who lists it: "dns:NAME" or Lease
}

// Key names a backend at one address: what was said about another incarnation says nothing about this one.
type Key struct {
	ID          string
	Incarnation uint64
}

// Report is what the replicas say about a backend.
type Report struct {
	Ready, Dead []string // routers that probe it and found it so; others than its observers are ignored
	Succeeded   bool     // some replica had an answer from it within the last 30 s
	InFlight    int      // requests over all replicas
}

// Input is all that a decision depends on.
type Input struct {
	Now   time.Time // only differences are used: must be monotonic
	Epoch *routing.Epoch
	// Found is the full list of every source that answered, and what the others listed when they last did.
	Found       []Found
	Broken      map[string]bool // sources that gave no answer
	Reports     map[Key]Report
	Complete    bool      // Reports hold what every live replica says
	Members     []string  // routers alive, this one included
	LeaderSince time.Time // when this replica became the leader; another time empties the planner's memory
}

// Kind says which rule a Reason comes from.
type Kind string

// The kinds of what was decided.
const (
	Joined    Kind = "joined"    // a source lists a new backend
	Moved     Kind = "moved"     // a source lists it at another address or for another variant
	Inherited Kind = "inherited" // its source dropped it, another lists it
	Returned  Kind = "returned"  // a source lists it again while it drains
	Ready     Kind = "ready"     // its observers found it ready
	Evicted   Kind = "evicted"   // its observers found it dead
	Unlisted  Kind = "unlisted"  // its source lists it no more
	Drained   Kind = "drained"   // nothing is in flight any more
	Overdue   Kind = "overdue"   // its time to drain is over
)

// The kinds of what a limit forbade.
const (
	HeldBroken   Kind = "source_broken"   // no answer, or an empty one
	HeldTaken    Kind = "taken"           // another backend has its id or address
	HeldInvalid  Kind = "invalid"         // the fleet's rules refuse it
	HeldFlapping Kind = "flapping"        // it came and went too often
	HeldShrink   Kind = "shrink_limit"    // too many would leave at once
	HeldFloor    Kind = "floor"           // too few would be left
	HeldRate     Kind = "eviction_rate"   // too many were evicted in the last minute
	HeldLeader   Kind = "new_leader"      // too little was seen yet
	HeldMembers  Kind = "routers_lost"    // more likely this replica is cut off
	HeldReports  Kind = "reports_missing" // some replica was not heard
	HeldSuccess  Kind = "succeeded"       // some replica had an answer from it
)

// Reason says what was decided, or not, and why.
type Reason struct {
	Kind    Kind
	Subject string // id of a backend, or a source
	Text    string // for people
}

// Decision is what the leader should propose now. The change was tried on the input's epoch, so it applies to that one.
type Decision struct {
	Change  routing.Change
	Empty   bool // there is nothing to propose
	Reasons []Reason
	Held    []Reason      // what was wanted too, and what forbade it
	Again   time.Duration // ask again after this at the latest, also when no input has changed; above 0
}
