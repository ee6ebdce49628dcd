package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/gossip"
	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/routing"
)

const (
	// followEvery is how often what was found and the epoch still lacks is announced again.
	followEvery = 5 * time.Second
	// namesakeLooks is how often another router with this one's name is seen before it is a mistake: the process before this
	// one, if it was killed, is taken for alive for some seconds.
	namesakeLooks = 4
	// followGap keeps the parts, which make news of each other's news, from going round without a pause.
	followGap = 10 * time.Millisecond
)

// follow brings every part up to date with the members, the epoch and this router's role, whichever of them changed, and
// announces what discovery lists.
func (r *replica) follow(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var last seen
	namesakes := map[string]int{}
	for {
		last = r.update(last)
		pause(ctx, followGap)
		select {
		case <-ctx.Done():
			return nil
		case <-r.news:
		case <-r.listed:
			r.announceFound()
		case <-tick.C:
			r.announceFound()
			namesakes = r.namesakes(namesakes)
		}
	}
}

// namesakes counts how often other routers with this one's name were seen, and warns of those that stay.
func (r *replica) namesakes(looks map[string]int) map[string]int {
	now := map[string]int{}
	for _, m := range *r.members.Load() {
		if m.Name == r.name || m.Meta.Router != r.cfg.Router.Name || m.Meta.Leaving {
			continue
		}
		now[m.Name] = looks[m.Name] + 1
		if now[m.Name] == namesakeLooks {
			r.log.Warn("another router has the same router.name: answers, logs and metrics of the two cannot be told apart", slog.String("address", m.Addr))
		}
	}
	return now
}

// seen is what an update handed on, so that the next one need not hand on the same.
type seen struct {
	seeds   *seedsSeen
	members *[]gossip.Member
	epoch   *routing.Epoch
	meta    gossip.Meta
}

func (r *replica) update(last seen) seen {
	seeds := r.seedsSeen.Load()
	members, epoch, status := r.members.Load(), r.epochs.newest(), r.agreement.Status()
	meta := gossip.Meta{
		Router: r.cfg.Router.Name, Server: status.Server, Cluster: status.Cluster,
		Generation: epoch.Generation(), Epoch: epoch.Number(), Digest: epoch.Digest(),
		Voter: status.Role >= consensus.Voter, Leads: status.Role == consensus.Leader, Leaving: r.leaving.Load(), Expect: r.cfg.Cluster.Expect,
	}
	if meta != last.meta {
		r.gossip.SetMeta(meta) // which makes news of its own
	}
	if members != last.members || seeds != last.seeds {
		r.setMembers(*members, *seeds)
	}
	if epoch != last.epoch {
		r.mesh.Repeat() // the picker forgets what it hears of backends that it does not know
		r.prober.SetBackends(caches(epoch))
	}
	if members != last.members || epoch != last.epoch {
		r.prober.Watch(r.targets(*members, epoch))
	}
	signal(r.orders)
	return seen{seeds, members, epoch, meta}
}

// setMembers tells the parts who the routers are.
func (r *replica) setMembers(members []gossip.Member, seeds seedsSeen) {
	names := map[string]string{}
	voters := make([]consensus.Member, 0, len(members))
	for _, m := range members {
		voters = append(voters, consensus.Member{
			Name: m.Name, Server: m.Meta.Server, Address: m.Addr, Blank: m.Meta.Cluster == "", Leaving: m.Meta.Leaving,
			Cluster: m.Meta.Cluster, Generation: m.Meta.Generation, Number: m.Meta.Epoch,
		})
		if m.Name != r.name {
			names[m.Name] = m.Addr
		}
	}
	r.client.SetMembers(slices.Collect(maps.Values(names)))
	r.mesh.SetMembers(names)
	r.agreement.SetMembers(voters, seeds.total, seeds.reached)
}

// targets are the backends that this router probes: those of which it is an observer.
func (r *replica) targets(members []gossip.Member, e *routing.Epoch) []probe.Target {
	names := memberNames(members)
	models := map[string][]string{}
	for _, ep := range e.Endpoints() {
		models[ep.Name] = slices.Concat([]string{ep.Name}, ep.Aliases, ep.Adapters)
	}
	var out []probe.Target
	for _, b := range e.Backends() {
		if b.State != routing.Draining && slices.Contains(plan.Observers(names, b.ID), r.name) {
			out = append(out, probe.Target{ID: b.ID, Incarnation: b.Incarnation, URL: b.URL, Endpoint: b.Endpoint, Models: models[b.Endpoint]})
		}
	}
	return out
}

// memberNames are the routers that share in the work: those that stay.
func memberNames(members []gossip.Member) []string {
	names := make([]string, 0, len(members))
	for _, m := range members {
		if !m.Meta.Leaving {
			names = append(names, m.Name)
		}
	}
	return names
}

// sources are where the feed may get epochs. A voter has them from its own log, unless it hears of no leader or others are
// ahead: after a long cut raft takes up to ten seconds to reach it again.
func (r *replica) sources() []peer.Source {
	status, own := r.agreement.Status(), r.version()
	fed := status.Role >= consensus.Voter && status.Leader != ""
	var out []peer.Source
	for _, m := range *r.members.Load() {
		if m.Name != r.name && m.Meta.Cluster != "" && m.Meta.Epoch > 0 {
			v := peer.Version{Generation: m.Meta.Generation, Number: m.Meta.Epoch, Digest: m.Meta.Digest}
			out = append(out, peer.Source{Name: m.Name, Address: m.Addr, Version: v, Voter: m.Meta.Voter})
			fed = fed && v.Compare(own) <= 0
		}
	}
	if fed {
		return nil
	}
	return out
}

// seedsAtOnce is how many names are looked up at the same time.
const seedsAtOnce = 16

// seeds are the addresses in cluster.join now. The names are looked up at once: one after the other a slow resolver would
// leave the last ones unknown for ever.
func (r *replica) seeds(ctx context.Context) ([]netip.AddrPort, error) {
	found := make([][]netip.AddrPort, len(r.cfg.Cluster.Join))
	errs := make([]error, len(r.cfg.Cluster.Join))
	var group errgroup.Group
	group.SetLimit(seedsAtOnce)
	for i, address := range r.cfg.Cluster.Join {
		group.Go(func() error {
			if found[i], errs[i] = r.seed(ctx, address); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", address, errs[i])
			}
			return nil
		})
	}
	_ = group.Wait() // its functions return no errors
	return slices.Concat(found...), errors.Join(errs...)
}

// seed is where one entry of cluster.join leads.
func (r *replica) seed(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	at, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, err
	}
	found, err := r.world.Lookup(ctx, host)
	out := make([]netip.AddrPort, len(found))
	for i, ip := range found {
		out[i] = netip.AddrPortFrom(ip.Unmap(), uint16(at))
	}
	return out, err
}

// compare notes that another router has an epoch of our number with another content.
func (r *replica) compare(name string, theirs peer.Version) {
	if ours := r.version(); ours.Number > 0 && ours.Contradicts(theirs) {
		r.mismatches.Add(1)
		both := [2]peer.Version{ours, theirs}
		if told := r.told.Swap(&both); told == nil || *told != both { // each frame says it again
			r.log.Error("two epochs of one number", slog.String("peer", name), slog.String("ours", ours.String()), slog.String("theirs", theirs.String()))
		}
		signal(r.doubts)
	}
}

// doubt finds out which content is right, whenever there are two.
func (r *replica) doubt(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.doubts:
		}
		if e := r.agreed(ctx); e != nil && peer.VersionOf(e).Contradicts(r.version()) {
			r.log.WarnContext(ctx, "the agreed epoch replaces ours", slog.String("epoch", e.ID()))
			r.epochs.offer(e)
		}
	}
}

// agreed is the epoch in use as this router's own log has it, or else as the leader has; nil: not now, and the next frame
// of a peer that contradicts raises the doubt again.
func (r *replica) agreed(ctx context.Context) *routing.Epoch {
	if e := r.agreement.Epoch(); e != nil && peer.VersionOf(e).Compare(r.version()) >= 0 {
		return e
	}
	address := r.leaderAddress(r.agreement.Status().Leader)
	if address == "" {
		address = r.anyVoter()
	}
	if address == "" {
		return nil
	}
	image, err := r.client.Image(ctx, address)
	if err != nil {
		return nil
	}
	e, err := image.Epoch()
	if err != nil {
		return nil
	}
	return e
}

// seedsSeen says how many seeds there are, and at how many of them a router answered.
type seedsSeen struct{ total, reached int }
