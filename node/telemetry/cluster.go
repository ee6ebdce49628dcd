package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClusterState is what a node knows of its cluster at one moment.
type ClusterState struct {
	Members, Voters int
	Role            string // blank, subscriber, voter or leader
	Quorum          bool
	Term            uint64
	ViewAge         time.Duration // of the oldest peer's loads; 0 without peers
	Mismatches      uint64        // epochs that a peer had with another digest, ever
	GossipScore     int           // 0 is healthy; memberlist's awareness score
	GossipQueue     int           // messages that wait to be gossiped
	PlanHeld        int           // changes that the leader wants and its limits forbid, on the leader
	// Frames of loads and their bytes, and how often a peer was asked for all its loads because some were missing.
	FramesSent, FramesReceived, BytesSent, BytesReceived, Gaps uint64
}

// cluster reads its gauges from the node when they are scraped.
type cluster struct {
	read func() ClusterState

	members, voters, role, quorum, term, age, mismatches, score, queue, held, frames, bytes, gaps *prometheus.Desc
}

// WatchCluster serves what read returns among the metrics.
func (m *Metrics) WatchCluster(read func() ClusterState) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("warmring_"+name, help, labels, nil)
	}
	return m.register(&cluster{
		read:       read,
		members:    desc("cluster_members", "Routers that are alive, this one included."),
		voters:     desc("cluster_voters", "Routers that decide on epochs."),
		role:       desc("cluster_role", "1 for the part that this router has, 0 for the others.", "role"),
		quorum:     desc("cluster_quorum", "1 while a majority of the voters can be reached."),
		term:       desc("raft_term", "Raft's term."),
		age:        desc("view_age_seconds", "Age of the oldest peer's loads."),
		mismatches: desc("epoch_mismatches_total", "Times that a peer had an epoch of the same number with another digest."),
		score:      desc("gossip_health_score", "0 is healthy; higher, this router is slow to answer."),
		queue:      desc("gossip_queue", "Messages that wait to be gossiped."),
		held:       desc("fleet_changes_held", "Changes that the leader wants and its limits forbid."),
		frames:     desc("load_frames_total", "Frames of loads exchanged with peers.", "direction"),
		bytes:      desc("load_bytes_total", "Bytes of these frames.", "direction"),
		gaps:       desc("load_gaps_total", "Times that a peer was asked for all its loads because some were missing."),
	})
}

// Describe implements prometheus.Collector.
func (c *cluster) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.members, c.voters, c.role, c.quorum, c.term, c.age, c.mismatches, c.score, c.queue, c.held, c.frames, c.bytes, c.gaps,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *cluster) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, role := range []string{"blank", "subscriber", "voter", "leader"} { // each has a series
		send(c.role, prometheus.GaugeValue, flag(role == s.Role), role)
	}
	send(c.members, prometheus.GaugeValue, float64(s.Members))
	send(c.voters, prometheus.GaugeValue, float64(s.Voters))
	send(c.quorum, prometheus.GaugeValue, flag(s.Quorum))
	send(c.term, prometheus.GaugeValue, float64(s.Term))
	send(c.age, prometheus.GaugeValue, s.ViewAge.Seconds())
	send(c.mismatches, prometheus.CounterValue, float64(s.Mismatches))
	send(c.score, prometheus.GaugeValue, float64(s.GossipScore))
	send(c.queue, prometheus.GaugeValue, float64(s.GossipQueue))
	send(c.held, prometheus.GaugeValue, float64(s.PlanHeld))
	send(c.frames, prometheus.CounterValue, float64(s.FramesSent), "out")
	send(c.frames, prometheus.CounterValue, float64(s.FramesReceived), "in")
	send(c.bytes, prometheus.CounterValue, float64(s.BytesSent), "out")
	send(c.bytes, prometheus.CounterValue, float64(s.BytesReceived), "in")
	send(c.gaps, prometheus.CounterValue, float64(s.Gaps))
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
