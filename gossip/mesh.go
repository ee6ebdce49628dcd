package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	nameLimit = 128 // bytes of a member's name
	// retransmit times the decimal logarithm of the number of members, rounded up, is how often each member tells a piece
	// of news. With memberlist's usual 4, one in thirty misses somebody among 9 members, and one in 4000 among 10; with 8
	// one in 8000 does. Who missed it learns it from the next exchange of state, up to half a minute later.
	retransmit   = 8
	queueMax     = 4096
	factsGap     = 20 * time.Millisecond // at most between a fact's arrival and OnFacts
	sweepEvery   = time.Second
	keysEvery    = 10 * time.Second
	leaveLimit   = 5 * time.Second
	streamLimit  = 5 * time.Second  // for each step of a stream
	toTheDead    = time.Minute      // a router that is taken for dead is still told so for this long, and may object
	reclaimAfter = 30 * time.Second // then a dead router's name may come back at another address
)

// ErrForeign says that a router belongs to another cluster.
var ErrForeign = errors.New("router of another cluster")

// Member is a router that is alive as far as this one knows.
type Member struct {
	Name string // unique for each start of a router
	Addr string // ip:port of its peer port
	Meta Meta
}

// Fact is something that a router announced. It holds until it expires or the same router announces something else under
// the same key.
type Fact struct {
	Origin  string // name of the member that announced it
	Key     string
	Value   []byte    // shared: not to be changed
	Expires time.Time // by this replica's clock
}

// Deps is what a Mesh works with.
type Deps struct {
	Name      string         // of this start of this router, 1..128 bytes: never used before
	Label     string         // of the cluster, at most 255 bytes: others are not listened to
	Listener  net.Listener   // streams of gossip; Run closes it
	Packets   net.PacketConn // packets of gossip; Run closes it
	Dial      func(ctx context.Context, address string) (net.Conn, error)
	Advertise netip.AddrPort // where others reach this router
	// Seeds returns addresses of other routers, resolved anew at each call; its own among them does no harm. With an
	// error it may return those that it found. Nil: others will join this one.
	Seeds func(ctx context.Context) ([]netip.AddrPort, error)
	// OnMembers gets the latest members, sorted by name, this one included, and what Reached said before they were listed:
	// the router that answered at a seed is among them. It must not block; it may be nil.
	OnMembers func(members []Member, seeds, reached int)
	OnFacts   func([]Fact) // the latest facts, sorted by origin and key; must not block; may be nil
	Log       *slog.Logger
	Random    io.Reader // seeds the order of attempts
}

// Mesh is this router's part in the gossip. Its methods may be called by several goroutines at once.
type Mesh struct {
	cfg    Config
	deps   Deps
	keys   *keyFile // nil without encryption; only New and serve use it
	logs   *logs
	bridge *bridge
	roster *roster
	facts  *facts
	seeds  *seeds
	queue  memberlist.TransmitLimitedQueue
	random *rand.Rand

	met     atomic.Bool // somebody, or there is nobody to look for
	meta    atomic.Pointer[Meta]
	members atomic.Pointer[[]Member]
	list    atomic.Pointer[memberlist.Memberlist] // nil until Run

	metaChanged    chan struct{} // one place each: something changed since it was last looked at
	membersChanged chan struct{}
	factsChanged   chan struct{}
	leave          chan chan error
	ended          chan struct{} // closed when Run returns
}

// New makes a Mesh and reads the key file. It starts nothing.
func New(cfg Config, deps Deps) (*Mesh, error) {
	if n := len(deps.Name); n < 1 || n > nameLimit {
		return nil, fmt.Errorf("gossip: a name must have 1..%d bytes: %q", nameLimit, deps.Name)
	}
	if len(deps.Label) > memberlist.LabelMaxSize {
		return nil, fmt.Errorf("gossip: a label must have at most %d bytes: %q", memberlist.LabelMaxSize, deps.Label)
	}
	var seed [32]byte
	if _, err := io.ReadFull(deps.Random, seed[:]); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	m := &Mesh{
		cfg: cfg, deps: deps,
		logs: newLogs(deps.Log), roster: newRoster(), facts: newFacts(deps.Name),
		seeds:  &seeds{pending: deps.Seeds != nil, answered: map[netip.AddrPort]bool{}},
		random: rand.New(rand.NewChaCha8(seed)),

		metaChanged: make(chan struct{}, 1), membersChanged: make(chan struct{}, 1), factsChanged: make(chan struct{}, 1),
		leave: make(chan chan error), ended: make(chan struct{}),
	}
	m.bridge = newBridge(m.logs)
	m.queue.RetransmitMult = retransmit
	m.queue.NumNodes = m.size
	if cfg.KeyFile != "" {
		var err error
		if m.keys, err = openKeys(cfg.KeyFile, deps.Log); err != nil {
			return nil, err
		}
	}
	m.meta.Store(&Meta{})
	members := m.roster.list(m.own())
	m.members.Store(&members)
	return m, nil
}

// size is the number of members.
func (m *Mesh) size() int { return len(m.Members()) }

func (m *Mesh) own() Member {
	return Member{Name: m.deps.Name, Addr: m.deps.Advertise.String(), Meta: *m.meta.Load()}
}

// Run takes part until ctx is done. It closes the listener and the packet conn; within 10 s of its return the last probes
// that memberlist had under way end. It may be called once.
func (m *Mesh) Run(ctx context.Context) error {
	defer close(m.ended)
	t := newTransport(m.deps)
	list, err := memberlist.Create(m.configure(t))
	if err != nil {
		return errors.Join(fmt.Errorf("gossip: %w", err), t.Shutdown())
	}
	m.list.Store(list)
	joining, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { m.serve(ctx, list, stop) })
	work.Go(func() { (&rejoiner{m: m, list: list, rand: m.random}).run(joining) })
	<-ctx.Done()
	t.cancel() // joins that are under way fail
	work.Wait()
	return list.Shutdown()
}

// configure says how memberlist works.
func (m *Mesh) configure(t *transport) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.Transport = m.deps.Name, m.deps.Label, t
	c.AdvertiseAddr, c.AdvertisePort = m.deps.Advertise.Addr().String(), int(m.deps.Advertise.Port())
	c.BindPort = c.AdvertisePort
	c.GossipInterval, c.GossipNodes = m.cfg.Interval, m.cfg.Nodes
	c.ProbeInterval, c.ProbeTimeout = m.cfg.ProbeInterval, m.cfg.ProbeTimeout
	c.SuspicionMult, c.RetransmitMult = m.cfg.Suspicion, retransmit
	c.GossipToTheDeadTime, c.DeadNodeReclaimTime = toTheDead, reclaimAfter
	c.TCPTimeout = streamLimit
	c.HandoffQueueDepth, c.UDPBufferSize, c.EnableCompression = queueMax, packetLimit, false
	c.LogOutput, c.Logger = nil, log.New(m.bridge, "", 0)
	if m.keys != nil {
		c.Keyring = m.keys.ring
	}
	d := delegate{m}
	c.Delegate, c.Events, c.Alive, c.Merge, c.Conflict = d, d, d, d, d
	return c
}

// serve publishes what has changed, and tells memberlist. stopJoining ends the attempts to join.
func (m *Mesh) serve(ctx context.Context, list *memberlist.Memberlist, stopJoining func()) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	keys := time.NewTicker(keysEvery)
	defer keys.Stop()
	var factsDue <-chan time.Time
	var again repeats
	left, swept := false, time.Now()
	signal(m.metaChanged)
	tell := func() {
		if !left { // memberlist forgets itself some time after it left
			_ = list.UpdateNode(time.Nanosecond) // to wait is all that can fail
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.metaChanged:
			tell()
			again.begin()
			m.publishMembers()
		case <-again.due:
			tell()
			again.wait()
		case <-m.membersChanged:
			m.publishMembers()
		case <-m.factsChanged:
			if factsDue == nil {
				factsDue = time.After(factsGap)
			}
		case <-factsDue:
			factsDue = nil
			m.publishFacts()
		case now := <-sweep.C:
			if m.facts.sweep(swept, now, m.isMember) {
				signal(m.factsChanged)
			}
			swept = now
			m.prune()
		case <-keys.C:
			if m.keys != nil {
				m.keys.refresh()
			}
		case done := <-m.leave:
			left = true
			stopJoining()
			done <- list.Leave(leaveLimit)
		}
	}
}

func (m *Mesh) isMember(name string) bool { return name == m.deps.Name || m.roster.has(name) }

func (m *Mesh) publishMembers() {
	seeds, reached := m.Reached()
	members := m.roster.list(m.own())
	m.members.Store(&members)
	if m.deps.OnMembers != nil {
		m.deps.OnMembers(members, seeds, reached)
	}
}

func (m *Mesh) publishFacts() {
	if m.deps.OnFacts != nil {
		m.deps.OnFacts(m.Facts())
	}
}

// prune drops the oldest of what is to be told when it is too much.
func (m *Mesh) prune() {
	if m.queue.NumQueued() > queueMax { // an empty queue cannot be pruned
		m.queue.Prune(queueMax)
	}
}

// SetMeta says something new of this router. What is longer than Meta allows is cut.
func (m *Mesh) SetMeta(meta Meta) {
	m.roster.setCluster(meta.Cluster)
	m.meta.Store(&meta)
	signal(m.metaChanged)
}

// Members are the routers that are alive, this one included, sorted by name. The slice is shared: not to be changed.
func (m *Mesh) Members() []Member { return *m.members.Load() }

// Announce tells all routers a fact, which replaces what this one told before under the same key. ttl is 1 ms to 24 h.
// Errors are ErrFactTooLarge (names, key and value have about 1,000 bytes), ErrFactsFull and ErrFactTTL.
func (m *Mesh) Announce(key string, value []byte, ttl time.Duration) error {
	msg, err := m.facts.announce(key, value, ttl, time.Now())
	if err != nil {
		return err
	}
	m.tell(m.deps.Name, key, msg)
	return nil
}

// hear takes in a fact from elsewhere.
func (m *Mesh) hear(msg []byte, passOn bool) {
	r, err := decodeRumour(msg)
	if err != nil {
		m.logs.warn("fact", "fact not understood: its router may be of a later release", "error", err)
		return
	}
	switch news, err := m.facts.merge(r, time.Now()); {
	case err != nil:
		m.logs.warn("full "+r.origin, "fact dropped", "origin", r.origin, "error", err)
	case news && passOn && len(msg) <= factLimit:
		m.tell(r.origin, r.key, r.encode())
	case news:
		signal(m.factsChanged)
	}
}

// tell queues a fact for others.
func (m *Mesh) tell(origin, key string, msg []byte) {
	m.queue.QueueBroadcast(&news{name: origin + "\x00" + key, msg: msg})
	signal(m.factsChanged)
}

// Facts are the facts that hold, this router's own included, sorted by origin and key.
func (m *Mesh) Facts() []Fact { return m.facts.list(time.Now()) }

// Leave tells the others that this router goes, and waits until one was told, for at most 5 s. The router takes part in the
// gossip until Run ends, but it is no member any more.
func (m *Mesh) Leave(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case m.leave <- done:
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Health is memberlist's judgement of this router's own punctuality, 0 (good) to 7, and how many facts wait to be told.
func (m *Mesh) Health() (score, queued int) {
	if list := m.list.Load(); list != nil {
		score = list.GetHealthScore()
	}
	return score, m.queue.NumQueued()
}

// Reached says how many seed addresses there are, this router's own not counted, and at how many of them a router answered
// or is a member. Until they were resolved for the first time it says 1 and 0: there may be somebody.
func (m *Mesh) Reached() (total, reached int) { return m.seeds.reached(m.roster.addresses()) }

// signal makes sure that c, which has one place, is not empty.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
