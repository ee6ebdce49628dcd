package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/gossip"
	"github.com/warmring/warmring/node/telemetry"
)

// describeMembers are the routers of the cluster for people.
func (r *replica) describeMembers() []admin.Member {
	status, own, ages := r.agreement.Status(), r.version(), r.mesh.Ages(time.Now())
	leader := leaderOf(status, *r.members.Load())
	var out []admin.Member
	for _, m := range *r.members.Load() {
		v := peer.Version{Generation: m.Meta.Generation, Number: m.Meta.Epoch, Digest: m.Meta.Digest}
		member := admin.Member{
			Name: m.Name, Router: m.Meta.Router, Server: m.Meta.Server, Address: m.Addr, Cluster: m.Meta.Cluster, Role: role(m, leader),
			Epoch: fmt.Sprintf("%d.%d", v.Generation, v.Number), Digest: fmt.Sprintf("%016x", v.Digest),
			Leaving: m.Meta.Leaving, Self: m.Name == r.name,
		}
		if v.Compare(own) == 0 {
			member.Agrees = new(v.Digest == own.Digest)
		}
		if age, ok := ages[m.Name]; ok {
			member.ViewAge = new(float64(age) / float64(time.Millisecond))
		}
		out = append(out, member)
	}
	return out
}

// leaderOf is the leader's server id: as this router's own log has it, or else as the leader says itself.
func leaderOf(status consensus.Status, members []gossip.Member) string {
	if status.Leader != "" || status.Role >= consensus.Voter {
		return status.Leader
	}
	leader, generation := "", uint64(0)
	for _, m := range members {
		if m.Meta.Leads && m.Meta.Cluster == status.Cluster && m.Meta.Generation >= generation {
			leader, generation = m.Meta.Server, m.Meta.Generation
		}
	}
	return leader
}

// role is a member's part in agreement, as it says itself, but for the leader.
func role(m gossip.Member, leader string) string {
	switch {
	case m.Meta.Cluster == "":
		return consensus.Blank.String()
	case leader != "" && m.Meta.Server == leader:
		return consensus.Leader.String()
	case m.Meta.Voter:
		return consensus.Voter.String()
	default:
		return consensus.Subscriber.String()
	}
}

// describeCluster is this router's part in the cluster for people.
func (r *replica) describeCluster() admin.ClusterStatus {
	status, members := r.agreement.Status(), *r.members.Load()
	routers := map[string]string{}
	voting := 0
	for _, m := range members {
		routers[m.Meta.Server] = m.Meta.Router
		if m.Meta.Voter {
			voting++
		}
	}
	c := admin.ClusterStatus{
		ID: status.Cluster, Generation: status.Generation, Role: status.Role.String(), Leader: routers[leaderOf(status, members)],
		Quorum: status.Quorum || status.Role == consensus.Subscriber && voting > 0, Term: status.Term,
		Members: len(members), Expect: r.cfg.Cluster.Expect, Waiting: status.Waiting,
	}
	for _, server := range status.Voters {
		if name := routers[server]; name != "" {
			c.Voters = append(c.Voters, name)
		} else {
			c.Voters = append(c.Voters, server+" (away)")
		}
	}
	if len(status.Voters) == 0 {
		for _, m := range members {
			if m.Meta.Voter {
				c.Voters = append(c.Voters, m.Meta.Router)
			}
		}
	}
	slices.Sort(c.Voters)
	return c
}

// state is the same for the metrics.
func (r *replica) state() telemetry.ClusterState {
	c, m := r.describeCluster(), r.mesh.Counts()
	s := telemetry.ClusterState{
		Members: c.Members, Voters: len(c.Voters), Role: c.Role, Quorum: c.Quorum, Term: c.Term,
		Mismatches: r.mismatches.Load(), PlanHeld: int(r.steer.held.Load()),
		FramesSent: m.FramesSent, FramesReceived: m.FramesReceived, BytesSent: m.BytesSent, BytesReceived: m.BytesReceived, Gaps: m.Gaps,
	}
	s.GossipScore, s.GossipQueue = r.gossip.Health()
	for _, age := range r.mesh.Ages(time.Now()) {
		s.ViewAge = max(s.ViewAge, age)
	}
	return s
}
