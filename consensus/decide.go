package consensus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// unfoundedAfter is how long a server stays with a founding that has no leader.
	unfoundedAfter = time.Minute
	// memoryOfMembers is how long a router counts that is gone without a word.
	memoryOfMembers = 10 * time.Minute
	// electionTime is how long voters that see each other again have to elect a leader, before those who see them too give
	// their generation up.
	electionTime = 5 * time.Second
)

// view is what a replica knows when it decides what to do about its cluster.
type view struct {
	self     Hello
	name     string // own router
	seated   bool   // a voter, as far as it knows
	others   []neighbour
	expect   int
	seeds    int           // addresses
	reached  int           // of them
	lost     time.Duration // since it last knew a quorum
	calm     time.Duration // since a router came, or came back
	patience time.Duration // before a new generation; 0: for ever
	known    int           // routers alive at some time in memoryOfMembers, this one included
}

// neighbour is another alive router and what it answered, if it did.
type neighbour struct {
	Member
	answered bool
	hello    Hello
}

type deed uint8

const (
	deedNone   deed = iota // nothing to do but, perhaps, to wait
	deedBind               // join the cluster as a subscriber
	deedFound              // ask all to promise, then found with these voters
	deedFollow             // begin again as a new server of that cluster and generation
	deedForget             // begin again as a new server, this founding has failed
)

// action is a decision, and why for people where it is to wait.
type action struct {
	deed       deed
	why        string
	cluster    string // "": mint one
	generation uint64
	voters     []string
}

func wait(format string, args ...any) action { return action{why: fmt.Sprintf(format, args...)} }

// decide is the rule by which clusters and generations are founded and joined. It
// reads nothing but v.
func decide(v view) action {
	if v.self.Blank {
		return v.join()
	}
	if a := v.superseded(); a.deed != deedNone {
		return a
	}
	unfounded := v.self.Number == 0
	switch {
	case v.self.Quorum || v.hasQuorum():
		return action{why: v.foreign()}
	case unfounded && v.self.Generation <= 1 && v.lost >= unfoundedAfter:
		return action{deed: deedForget}
	case unfounded && v.self.Generation <= 1:
		return wait("waiting for the other voters of cluster %s, which is being founded", v.self.Cluster)
	case v.patience == 0:
		return wait("no majority of the voters is reachable: changes are refused until it is back")
	case v.lost < v.patience:
		return wait("no majority of the voters is reachable: changes are refused until it is back, or until a new generation is founded after %v", v.patience)
	case v.calm < electionTime:
		return wait("no majority of the voters was reachable, and a router has come back: the voters have %v to elect a leader", electionTime)
	default:
		return v.renew()
	}
}

// join is for a replica that belongs to no cluster.
func (v view) join() action {
	founded := map[string]uint64{}
	for _, n := range v.others {
		if n.answered && n.hello.Cluster != "" && n.hello.Number > 0 {
			founded[n.hello.Cluster] = max(founded[n.hello.Cluster], n.hello.Generation)
		}
	}
	if len(founded) > 1 {
		// Whether one of them is dead is not for a newcomer to say.
		return wait("routers of several clusters are visible (%s): separate them by cluster.name or by their keys", strings.Join(slices.Sorted(maps.Keys(founded)), ", "))
	}
	for cluster, generation := range founded {
		return action{deed: deedBind, cluster: cluster, generation: generation}
	}
	if a := v.everyoneAnswered(); a.why != "" {
		return a
	}
	for _, n := range v.others {
		if n.hello.Cluster != "" {
			return wait("waiting for cluster %s, which is being founded (router %s)", n.hello.Cluster, n.Name)
		}
	}
	if v.seeds > 0 && 2*v.reached <= v.seeds {
		return wait("waiting for more than half of the %d seeds (cluster.join), %d reached", v.seeds, v.reached)
	}
	staying := v.staying()
	if len(staying) < v.expect {
		return wait("waiting for %d replicas (cluster.expect), %d seen: %s", v.expect, len(staying), names(staying))
	}
	return v.elect(staying, v.expect, "", 1)
}

// everyoneAnswered waits for those who did not, and for those who see or expect
// something else.
func (v view) everyoneAnswered() action {
	visible := map[string]bool{v.self.Server: true}
	for _, n := range v.others {
		visible[n.Server] = true
	}
	for _, n := range v.others {
		switch {
		case n.Leaving:
		case !n.answered:
			return wait("waiting for an answer from router %s at %s", n.Name, n.Address)
		case n.hello.Server != n.Server:
			return wait("waiting for news of router %s, which began as a new server", n.Name)
		case n.hello.Expect != v.expect:
			return wait("cluster.expect is %d on router %s and %d on router %s: make them equal", v.expect, v.name, n.hello.Expect, n.Name)
		}
	}
	for _, n := range v.others {
		for _, server := range n.hello.Members {
			if !n.Leaving && !visible[server] {
				return wait("waiting to see server %s, which router %s sees", server, n.Name)
			}
		}
	}
	return action{}
}

// staying are those who can found, this replica included, by server id.
func (v view) staying() []Member {
	out := []Member{{Name: v.name, Server: v.self.Server}}
	for _, n := range v.others {
		if !n.Leaving {
			out = append(out, n.Member)
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

func names(members []Member) string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Name
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// elect makes the lowest server id the one candidate.
func (v view) elect(staying []Member, voters int, cluster string, generation uint64) action {
	if first := staying[0]; first.Server != v.self.Server {
		return wait("waiting for router %s (server %s) to found the cluster", first.Name, first.Server)
	}
	a := action{deed: deedFound, cluster: cluster, generation: generation}
	for _, m := range staying[:min(voters, len(staying))] {
		a.voters = append(a.voters, m.Server)
	}
	return a
}

// superseded finds a later generation, or another cluster for a server whose own was
// never founded, or that this one lost its seat while it was cut off, which nobody
// else would tell it.
func (v view) superseded() action {
	for _, n := range v.others {
		if !n.answered || !n.hello.Quorum {
			continue
		}
		later := n.hello.Cluster == v.self.Cluster && n.hello.Generation > v.self.Generation
		other := n.hello.Cluster != v.self.Cluster && v.self.Number == 0
		unseated := v.seated && !v.self.Quorum && n.hello.Cluster == v.self.Cluster && n.hello.Generation == v.self.Generation &&
			len(n.hello.Seats) > 0 && !slices.Contains(n.hello.Seats, v.self.Server)
		if later || other || unseated {
			return action{deed: deedFollow, cluster: n.hello.Cluster, generation: n.hello.Generation}
		}
	}
	return action{}
}

// foreign warns of a cluster that this one cannot merge with.
func (v view) foreign() string {
	for _, n := range v.others {
		if n.Cluster != "" && n.Cluster != v.self.Cluster {
			return fmt.Sprintf("router %s belongs to another cluster (%s): separate the two by cluster.name or by their keys", n.Name, n.Cluster)
		}
	}
	return ""
}

func (v view) hasQuorum() bool {
	return slices.ContainsFunc(v.others, func(n neighbour) bool {
		return n.answered && n.hello.Quorum && n.hello.Cluster == v.self.Cluster
	})
}

// renew founds the next generation of a cluster whose voters are lost.
func (v view) renew() action {
	if a := v.everyoneAnswered(); a.why != "" {
		return a
	}
	staying := v.staying()
	if 2*len(staying) <= v.known {
		return wait("no majority of the voters is reachable, and only %d of %d routers known in the last %v are alive: a new generation needs more than half", len(staying), v.known, memoryOfMembers)
	}
	generation := v.self.Generation
	for _, n := range v.others {
		if !n.Leaving && n.hello.Cluster != v.self.Cluster {
			return wait("waiting for router %s to join cluster %s", n.Name, v.self.Cluster)
		}
		generation = max(generation, n.hello.Generation)
	}
	return v.elect(staying, seatsFor(len(staying), v.expect), v.self.Cluster, generation+1)
}
