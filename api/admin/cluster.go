package admin

import (
	"context"
	"errors"
	"time"

	"github.com/warmring/warmring/routing"
)

// Fleet changes what the replicas agree on. Any replica's takes a write.
type Fleet interface {
	// Write returns the epoch that carries the change. Its errors are those below,
	// or wrap a *routing.ChangeError for each field that is wrong.
	Write(ctx context.Context, w Write) (*routing.Epoch, error)
	// Renew keeps a backend that registered itself for the lease's time; without one it ends its lease.
	Renew(ctx context.Context, l Lease) error
}

// What a Fleet may answer to a write.
var (
	// ErrNoQuorum says that a majority of the voters cannot be reached: nothing was
	// written.
	ErrNoQuorum = errors.New("no quorum: a majority of the cluster's voters cannot be reached, so nothing was changed; requests are served as before")
	// ErrConflict says that the fleet is no longer the write's base: nothing was
	// written.
	ErrConflict = errors.New("the fleet was changed by somebody else in the meantime, so nothing was changed: look at it again and repeat")
	// ErrShrink says that the write takes out more of the fleet than is allowed
	// at once: nothing was written.
	ErrShrink = errors.New("this takes out more of the fleet at once than fleet.max_shrink allows, so nothing was changed: take out fewer, or force it (--force of the command line, force=true of the admin API)")
	// ErrUnknown says that the leader was lost while it wrote.
	ErrUnknown = errors.New("the leader was lost while it wrote: the change may have been applied; read the epoch before repeating it")
)

// Write is a change to the fleet and who asks for it.
type Write struct {
	Change routing.Change
	Base   *routing.Epoch // that the change was made from, else ErrConflict; nil: any
	Force  bool           // allow to take out more than is usual
	By     string         // who asks, for people
	ID     string         // of the request: the same one twice is one write
}

// Lease is a backend that registered itself.
type Lease struct {
	Backend routing.Backend // Joining, its Source is "lease"
	TTL     time.Duration   // until it is drained, unless renewed; 0: now
}

// Member is a router of the cluster, as this one sees it.
type Member struct {
	Name    string   `json:"name"`        // of this process; new at each start
	Router  string   `json:"router"`      // router.name
	Server  string   `json:"server"`      // its id in the log
	Address string   `json:"address"`     // of its peer port
	Cluster string   `json:"cluster"`     // its cluster's id; empty while it has none
	Role    string   `json:"role"`        // leader, voter, subscriber or blank
	Epoch   string   `json:"epoch"`       // generation.number
	Digest  string   `json:"digest"`      // hexadecimal
	Agrees  *bool    `json:"agrees"`      // has the same digest for the same epoch; null: not comparable now
	Leaving bool     `json:"leaving"`     // shuts down
	Self    bool     `json:"self"`        // the one that answers
	ViewAge *float64 `json:"view_age_ms"` // since its loads were last heard; null: never, or itself
}

// ClusterStatus is one router's part in the cluster.
type ClusterStatus struct {
	ID         string   `json:"id"` // empty while there is none
	Generation uint64   `json:"generation"`
	Role       string   `json:"role"`   // leader, voter, subscriber or blank
	Leader     string   `json:"leader"` // its router's name; empty: not known
	Quorum     bool     `json:"quorum"` // changes can be agreed on
	Term       uint64   `json:"term"`
	Voters     []string `json:"voters"`  // routers' names
	Members    int      `json:"members"` // alive, this one included
	Expect     int      `json:"expect"`  // voters that the cluster is founded with
	Waiting    string   `json:"waiting"` // what for, for people; empty: for nothing
}

// EpochInfo is an epoch of the past and what it changed.
type EpochInfo struct {
	ID      string        `json:"id"`     // generation.number
	Digest  string        `json:"digest"` // hexadecimal
	At      time.Time     `json:"at"`     // when this router got it
	By      string        `json:"by"`     // who asked for it; empty: not known
	Changes []EpochChange `json:"changes"`
}

// EpochChange is one kind of change and what it happened to.
type EpochChange struct {
	Kind  string   `json:"kind"` // such as "backends active"; see Summary
	Count int      `json:"count"`
	IDs   []string `json:"ids"` // the first of them, at most 16
}
