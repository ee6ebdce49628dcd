package sim

import (
	"github.com/warmring/warmring/node"
)

// State is what the harness knows of a running router. This file is the only place that reads a node, and it must read
// snapshots and atomics only, since rules look at it all the time.
type State struct {
	Router string
	Start  int64 // how often the router was started
	Ready  bool

	Generation, Number, Digest uint64 // of its epoch; zero: none yet

	Clustered bool   // the rest is known
	Cluster   string // its identity; empty: none yet
	Founding  uint64 // the generation of its log, which an epoch may lag behind
	Role      string
	Term      uint64
	Leader    string // the router's name; empty: not known
}

// leads says whether the router takes itself for the leader.
func (s State) leads() bool { return s.Role == "leader" }

// State is false as its second value unless the router runs.
func (r *Router) State() (State, bool) {
	n := r.Node()
	if n == nil || !r.Running() {
		return State{}, false
	}
	s := State{Router: r.Name, Start: r.starts.Load(), Ready: n.Ready() == nil}
	e := n.Epoch()
	s.Generation, s.Number, s.Digest = e.Generation(), e.Number(), e.Digest()
	if !listens(n) { // there is no part in a cluster before it listens
		return s, true
	}
	status := n.Cluster()
	s.Clustered, s.Cluster, s.Founding, s.Role, s.Term, s.Leader = true, status.ID, status.Generation, status.Role, status.Term, status.Leader
	return s, true
}

// members are the routers that r knows, by name. It is not in State because rules look at that fifty times a second.
func (r *Router) members() []string {
	n := r.Node()
	if n == nil || !r.Running() || !listens(n) {
		return nil
	}
	var names []string
	for _, m := range n.Members() {
		names = append(names, m.Router)
	}
	return names
}

func listens(n *node.Node) bool {
	select {
	case <-n.Listening():
		return true
	default:
		return false
	}
}
