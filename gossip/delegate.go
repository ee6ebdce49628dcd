package gossip

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. Some of it is called under memberlist's lock, so nothing here blocks or calls back;
// what it is given belongs to memberlist, so what is kept is copied.
type delegate struct{ m *Mesh }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.MergeDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
)

// NodeMeta is what this router says of itself.
func (d delegate) NodeMeta(int) []byte { return d.m.own().Meta.encode() }

// NotifyMsg takes in a fact, and passes it on if it is news: memberlist itself tells only those it first sends it to.
func (d delegate) NotifyMsg(buf []byte) {
	d.m.hear(buf, true)
}

// GetBroadcasts is what should be told now.
func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.m.queue.GetBroadcasts(overhead, limit)
}

// LocalState is all facts.
func (d delegate) LocalState(bool) []byte { return d.m.facts.state(time.Now()) }

// MergeRemoteState takes in another router's facts. They are passed on only when parts of the cluster meet again: between
// members they are on their way already, and a router that has just started knows nothing that others do not.
func (d delegate) MergeRemoteState(buf []byte, join bool) {
	passOn := join && d.m.met.Load()
	err := decodeState(buf, func(msg []byte) { d.m.hear(msg, passOn) })
	if err != nil {
		d.m.logs.warn("state", "facts of another router not understood: it may be of a later release", "error", err)
	}
}

// NotifyJoin notes a member.
func (d delegate) NotifyJoin(node *memberlist.Node) { d.note(node) }

// NotifyUpdate notes what a member says of itself.
func (d delegate) NotifyUpdate(node *memberlist.Node) { d.note(node) }

func (d delegate) note(node *memberlist.Node) {
	if node.Name == d.m.deps.Name {
		return
	}
	meta, err := decodeMeta(node.Meta)
	if err != nil {
		d.m.logs.warn("meta "+node.Name, "member not understood: it may be of a later release", "member", node.Name, "error", err)
	}
	at := place(node)
	d.m.roster.put(Member{Name: node.Name, Addr: at.String(), Meta: meta}, at)
	signal(d.m.membersChanged)
}

// NotifyLeave notes that a member left, or is taken for dead.
func (d delegate) NotifyLeave(node *memberlist.Node) {
	if node.Name == d.m.deps.Name {
		return
	}
	d.m.roster.remove(node.Name, time.Now())
	signal(d.m.membersChanged)
}

// NotifyAlive keeps routers of other clusters out, however they come to be known.
func (d delegate) NotifyAlive(node *memberlist.Node) error {
	if node.Name == d.m.deps.Name {
		return nil
	}
	meta, err := decodeMeta(node.Meta)
	if err != nil {
		return nil //nolint:nilerr // of a later release, and still a member
	}
	d.m.roster.claimed(node.Name, meta.Cluster)
	own, foreign := d.m.roster.foreign(meta.Cluster)
	if !foreign {
		return nil
	}
	signal(d.m.membersChanged) // it may have been a member
	d.m.logForeign(node, meta.Cluster, own)
	return fmt.Errorf("%w: %s, and this is %s", ErrForeign, meta.Cluster, own)
}

// NotifyMerge refuses to join, or be joined by, routers that are all of another cluster. A single one among others is kept
// out by NotifyAlive.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	var stranger *memberlist.Node
	var claim, own string
	for _, node := range peers {
		meta, err := decodeMeta(node.Meta)
		if err != nil || meta.Cluster == "" || node.Name == d.m.deps.Name || node.State != memberlist.StateAlive {
			continue
		}
		ours, foreign := d.m.roster.foreign(meta.Cluster)
		if !foreign {
			return nil
		}
		stranger, claim, own = node, meta.Cluster, ours
	}
	if stranger == nil {
		return nil
	}
	d.m.logForeign(stranger, claim, own)
	return fmt.Errorf("%w: %s, and this is %s", ErrForeign, claim, own)
}

// NotifyConflict cannot happen by names that are new at each start; if it does, the first one keeps the name.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.m.logs.warn("conflict "+existing.Name, "two routers have one name: the second one is not a member",
		"member", existing.Name, "first", place(existing).String(), "second", place(other).String())
}

func (m *Mesh) logForeign(node *memberlist.Node, claim, own string) {
	m.logs.warn("foreign "+place(node).String(), "router of another cluster refused",
		"member", node.Name, "address", place(node).String(), "cluster", claim, "own_cluster", own)
}

func place(node *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(node.Addr) // else the zero address, which is nobody's
	return netip.AddrPortFrom(ip.Unmap(), node.Port)
}

// news is a fact in the queue of what is to be told.
type news struct {
	name string // of origin and key: a newer fact replaces an older one
	msg  []byte
}

// Invalidates says whether n takes the place of other.
func (n *news) Invalidates(other memberlist.Broadcast) bool {
	o, ok := other.(memberlist.NamedBroadcast)
	return ok && o.Name() == n.name
}

// Name is what n is about.
func (n *news) Name() string { return n.name }

// Message is the encoded fact.
func (n *news) Message() []byte { return n.msg }

// Finished is called when n was told often enough.
func (n *news) Finished() {}
