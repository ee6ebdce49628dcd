package peer

import (
	"cmp"
	"fmt"
	"time"

	"github.com/warmring/warmring/routing"
)

// Hello is what a router says of itself and of the cluster it knows.
type Hello struct {
	Server     string // its id in the agreement
	Name       string // its name in this run
	Cluster    string // empty while it belongs to none
	Generation uint64
	Number     uint64 // of its newest epoch
	Blank      bool   // it holds nothing agreed
	Expect     int
	Quorum     bool     // it knows a leader, or is one
	Members    []string // servers it sees alive
	Seats      []string // with Quorum: the servers that take part in the agreement
}

// Ballot asks for a promise to found the cluster with these voters and no others.
type Ballot struct {
	Candidate  string
	Cluster    string
	Generation uint64
	Expect     int
	Voters     []string // servers, sorted
}

// Proposal is a change of the fleet on its way to the leader.
type Proposal struct {
	ID             string // of the request; the same one twice is applied once
	BaseGeneration uint64 // the epoch it was made for; both zero for any
	BaseNumber     uint64
	Change         routing.Change
	Force          bool
	By             string
}

// Lease lists a model server for a time.
type Lease struct {
	Backend routing.Backend
	TTL     time.Duration // kept in milliseconds; 0: the lease ends
}

// Version names an epoch and its content.
type Version struct {
	Generation uint64
	Number     uint64
	Digest     uint64
}

// VersionOf returns e's version.
func VersionOf(e *routing.Epoch) Version {
	return Version{Generation: e.Generation(), Number: e.Number(), Digest: e.Digest()}
}

// Compare orders versions by generation and number. The digest has no order.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Generation, o.Generation), cmp.Compare(v.Number, o.Number))
}

// Contradicts reports whether v and o are two contents by one name. Generation 0 is
// what a router holds before it knows any epoch: that names nothing.
func (v Version) Contradicts(o Version) bool {
	return v.Generation > 0 && v.Compare(o) == 0 && v.Digest != o.Digest
}

// String is "generation.number digest".
func (v Version) String() string {
	return fmt.Sprintf("%d.%d %016x", v.Generation, v.Number, v.Digest)
}

// Step is a change and the epoch it made.
type Step struct {
	Version Version
	Change  routing.Change
	By      string
	At      time.Time // in milliseconds
}
