package consensus

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/warmring/warmring/routing"
)

// Member is a router that gossip believes to be alive, this one included.
type Member struct {
	Name    string // unique to one process start
	Server  string // its raft id
	Address string // host:port of its peer port
	Blank   bool   // it belongs to no cluster
	Leaving bool   // it said that it is about to stop

	Cluster    string
	Generation uint64
	Number     uint64 // of the epoch it holds
}

// Hello is what a replica says about itself when asked directly.
type Hello struct {
	Server, Name string
	// Cluster and Generation are what the server is bound to; Blank says nothing,
	// though it may have promised itself to a ballot.
	Cluster    string
	Generation uint64
	// Number is that of its epoch, and 0 as long as its generation is not founded.
	Number  uint64
	Blank   bool
	Expect  int
	Quorum  bool     // it is a voter and knows a leader, or is one
	Members []string // servers that it sees alive, sorted
	Seats   []string // with Quorum: the servers in its configuration, voters or about to be, sorted
}

// Ballot is what a candidate asks others to promise before it founds a cluster or a
// generation. One with an empty Cluster withdraws the candidate's earlier one.
type Ballot struct {
	Candidate, Cluster string
	Generation         uint64
	Expect             int
	Voters             []string // servers, sorted
}

// Peers asks other replicas by the address of their peer port.
type Peers interface {
	Hello(ctx context.Context, address string) (Hello, error)
	Promise(ctx context.Context, address string, b Ballot) error
	Image(ctx context.Context, address string) (routing.Image, error)
}

// Deps is what a Log takes from its node. Callbacks must not block and must not
// call the Log.
type Deps struct {
	Listener net.Listener // raft connections for this replica; Run closes it
	Dial     func(ctx context.Context, address string) (net.Conn, error)
	Peers    Peers
	Name     string // this router's name in gossip
	Expect   int    // replicas that found a cluster together: 1, 3 or 5
	// First makes the first epoch of a new cluster.
	First func() (*routing.Epoch, error)
	// Latest is the newest epoch this replica holds, from wherever; nil for none.
	Latest func() *routing.Epoch
	// OnEpoch is given committed epochs, with the steps that led there from the one given
	// before as far as they are known. The latest always arrives; those between
	// may be left out.
	OnEpoch  func(*routing.Epoch, []Step)
	OnChange func()        // Status may have changed
	Gap      time.Duration // least time between two entries; 0 for 500 ms
	// MaxShrink is the largest share of the active backends that one entry may take
	// out of service unless forced; 0 for 0.2.
	MaxShrink float64
	Log       *slog.Logger
	Random    io.Reader // ids are read from it; must not fail
}

// Step is a change, who asked for it, and the epoch it made. A founding has no change.
type Step struct {
	Epoch  *routing.Epoch
	Change routing.Change
	By     string
}

// Base names the epoch that a proposal was made from; the zero value is any.
type Base struct {
	Generation uint64 `json:"generation"`
	Number     uint64 `json:"number"`
}

// Proposal asks for one change of the epoch.
type Proposal struct {
	ID     string // request id; a repetition gives the epoch that the first one gave
	Base   Base
	Change routing.Change
	Force  bool   // allow to take any number of backends out
	By     string // who asked, for the record
}

// Role is what a replica is to its cluster.
type Role uint8

// The roles, from the least part in agreement to the most.
const (
	Blank Role = iota // belongs to no cluster yet
	Subscriber
	Voter
	Leader
)

// String returns the role's name in lower case.
func (r Role) String() string {
	switch r {
	case Blank:
		return "blank"
	case Subscriber:
		return "subscriber"
	case Voter:
		return "voter"
	case Leader:
		return "leader"
	}
	return "unknown"
}

// Status is what operators and gossip are told about this replica.
type Status struct {
	Server     string
	Cluster    string
	Generation uint64
	Role       Role
	Leader     string // server id, "" when none is known

	Term, LastIndex, Applied uint64

	Voters      []string
	LastContact time.Duration // since the leader was last heard; 0 on the leader and where there is none
	Quorum      bool          // a majority of the voters was reachable when last known
	Waiting     string        // what it waits for, for people; "" for nothing
	PreVote     bool
}
