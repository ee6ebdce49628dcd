package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// Kinds of changes: a closed set.
const (
	ChangeAdded     = "added"     // servers came
	ChangeRemoved   = "removed"   // servers left
	ChangeState     = "state"     // servers changed to the state that Subject ends with
	ChangeEndpoints = "endpoints" // endpoints, variants or policies changed
	ChangeBackends  = "backends"  // servers' addresses, weights or limits changed
	ChangeEjected   = "ejected"   // this router sends a server nothing for a while
	ChangeReturned  = "returned"  // a server that was ejected answered well
)

// Change is something that happened to the fleet.
type Change struct {
	At      time.Time
	Kind    string
	Subject string // the servers that it is about, by name where they are few
	Epoch   string // that carries it; empty for what only this router saw
}

// maxChanges bounds the list of changes, maxNames the servers that one change names.
const (
	maxChanges = 50
	maxNames   = 3
)

// changes are the latest, oldest first.
type changes []Change

func (c *changes) add(change Change) {
	if len(*c) == maxChanges {
		*c = slices.Delete(*c, 0, 1)
	}
	*c = append(*c, change)
}

func (c *changes) newestFirst() []Change {
	out := slices.Clone(*c)
	slices.Reverse(out)
	return out
}

// addEpoch adds what differs from was (nil: nothing was) to is.
func (c *changes) addEpoch(was, is *routing.Epoch, now time.Time) {
	note := func(kind string, ids []string, suffix string) {
		if len(ids) > 0 {
			c.add(Change{At: now, Kind: kind, Subject: subject(ids) + suffix, Epoch: is.ID()})
		}
	}
	if was == nil {
		was = routing.NewEpoch(0, 0)
	}
	before := map[string]routing.Backend{}
	for _, b := range was.Backends() {
		before[b.ID] = b
	}
	var added, changed, removed []string
	states := map[routing.State][]string{}
	for _, b := range is.Backends() {
		old, known := before[b.ID]
		delete(before, b.ID)
		switch {
		case !known:
			added = append(added, b.ID)
		case old.State != b.State:
			states[b.State] = append(states[b.State], b.ID)
		case old != b:
			changed = append(changed, b.ID)
		}
	}
	for _, b := range was.Backends() {
		if _, left := before[b.ID]; left {
			removed = append(removed, b.ID)
		}
	}
	note(ChangeAdded, added, "")
	note(ChangeRemoved, removed, "")
	note(ChangeBackends, changed, "")
	for _, s := range []routing.State{routing.Joining, routing.Active, routing.Draining} {
		note(ChangeState, states[s], " "+s.String())
	}
	if put := routing.Diff(was, is.Endpoints(), nil); len(put.PutEndpoints)+len(put.RemoveEndpoints) > 0 {
		names := put.RemoveEndpoints
		for _, e := range put.PutEndpoints {
			names = append(names, e.Name)
		}
		note(ChangeEndpoints, names, "")
	}
}

// subject names the first of ids and counts the rest.
func subject(ids []string) string {
	if more := len(ids) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:maxNames], ", "), more)
	}
	return strings.Join(ids, ", ")
}
