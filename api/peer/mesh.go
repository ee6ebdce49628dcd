package peer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/gossip/places"
)

// Times of the exchange.
const (
	heartbeat   = 500 * time.Millisecond // a frame at least this often
	silence     = 1500 * time.Millisecond
	expireEvery = 100 * time.Millisecond

	// The gap between frames: the least up to fewPeers, the most from manyPeers on.
	gapLeast, gapMost   = 20 * time.Millisecond, 200 * time.Millisecond
	fewPeers, manyPeers = 30, 100
)

// Gap is how long after a frame the next one goes out at the earliest. The work
// of a router grows with peers times frames a second, so the gap grows with the
// peers where that begins to cost.
func Gap(peers int) time.Duration {
	over := min(max(0, peers-fewPeers), manyPeers-fewPeers)
	return gapLeast + time.Duration(over)*(gapMost-gapLeast)/(manyPeers-fewPeers)
}

// MeshConfig is what a Mesh needs.
type MeshConfig struct {
	Client    *Client
	Identity  Identity
	Publisher *loads.Publisher // what this router says
	// Changed is signalled when Collect has something to do.
	Changed <-chan struct{}
	// Collect puts what has changed into Publisher and Places. It is called at most once a
	// gap.
	Collect func(now time.Time)
	// Places is what this router placed; what is added goes out after the next Collect.
	// nil: it tells none.
	Places *places.Log
	// OnPlaces takes what another router placed, in its order; a new stream begins with what
	// that router still has, whether or not it was told before. Calls for one router do not
	// overlap, those for several may. ps is the callee's. nil: nobody wants to know.
	OnPlaces func(origin string, ps []places.Placement, now time.Time)
	// Version is this router's epoch; it goes with each frame.
	Version func() Version
	// OnSums takes the new sums over all others of what changed. Calls do not overlap.
	OnSums func(sums []loads.Sum, now time.Time)
	// OnVersion is told which epoch another router holds, with each of its frames.
	// Calls may overlap.
	OnVersion func(name string, v Version)
	Log       *slog.Logger
}

// Mesh exchanges loads with every other router, over one stream with each, which the
// router with the lower name opens.
type Mesh struct {
	cfg     MeshConfig
	counts  counts
	fresh   signal        // there is something new to send
	moved   chan struct{} // there are keys in changed
	renamed chan struct{} // members is another

	// table has a lock of its own; it is changed under mu, so that a link that was
	// dropped cannot bring anything back.
	table *loads.Table

	mu      sync.Mutex             // guards what follows
	changed map[loads.Key]struct{} // sums to be told
	members map[string]string      // address by name, without this router
	links   map[string]*link       // by name
	// hearing is, by name, what closes when the receiver of the latest link ends. A receiver
	// outlives its link for a moment, and the next one waits for it.
	hearing map[string]chan struct{}
	running bool
	work    sync.WaitGroup // of all links; added to while running
}

// NewMesh returns a mesh without members.
func NewMesh(cfg MeshConfig) *Mesh {
	if cfg.Places == nil {
		cfg.Places = places.NewLog(0)
	}
	if cfg.OnPlaces == nil {
		cfg.OnPlaces = func(string, []places.Placement, time.Time) {}
	}
	return &Mesh{
		cfg: cfg, moved: make(chan struct{}, 1), renamed: make(chan struct{}, 1),
		table: loads.NewTable(), changed: map[loads.Key]struct{}{}, members: map[string]string{}, links: map[string]*link{},
		hearing: map[string]chan struct{}{},
	}
}

// notify signals without waiting; one signal that is not taken yet is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// SetMembers says who the routers are: addresses by name. This router may be among
// them. What somebody said who is not is dropped, and its stream closed.
func (m *Mesh) SetMembers(members map[string]string) {
	m.mu.Lock()
	before := m.members
	m.members = make(map[string]string, len(members))
	for name, address := range members {
		if name != m.cfg.Identity.Name {
			m.members[name] = address
		}
	}
	for name := range before {
		if _, ok := m.members[name]; !ok {
			m.forget(name)
		}
	}
	m.mu.Unlock()
	notify(m.renamed)
}

// forget ends a router's link, if it has one, and drops what it said. m.mu is held.
func (m *Mesh) forget(name string) {
	if l := m.links[name]; l != nil {
		m.end(l)
	}
	m.note(m.table.Drop(name))
}

// end ends a link whose router may have another one soon. What that said holds until it has been silent for too long: were
// it dropped at once, all that waits for a slot would take one that is not free. m.mu is held.
func (m *Mesh) end(l *link) {
	l.cancel()
	if m.links[l.name] == l { // else another stream has taken its place
		delete(m.links, l.name)
	}
}

// Repeat tells all sums again, for a receiver that has come to know further model servers.
func (m *Mesh) Repeat() {
	var keys []loads.Key
	for _, sum := range m.table.All(nil) {
		keys = append(keys, sum.Key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(keys)
}

// note remembers whose sums are to be told. m.mu is held.
func (m *Mesh) note(keys []loads.Key) {
	if len(keys) == 0 {
		return
	}
	for _, k := range keys {
		m.changed[k] = struct{}{}
	}
	notify(m.moved)
}

// Run exchanges until ctx ends, and returns when all streams have ended.
func (m *Mesh) Run(ctx context.Context) error {
	m.mu.Lock()
	m.running = true
	m.mu.Unlock()
	var loops sync.WaitGroup
	loops.Go(func() { m.collect(ctx) })
	loops.Go(func() { m.tell(ctx) })
	loops.Go(func() { m.dialAll(ctx) })
	loops.Wait()
	m.mu.Lock()
	m.running = false
	for name := range m.links {
		m.forget(name)
	}
	m.mu.Unlock()
	m.work.Wait()
	return nil
}

// collect gathers what this router has to say: at once and then not before the gap,
// and with each heartbeat, because a success that grows old does not signal.
func (m *Mesh) collect(ctx context.Context) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var last told
	for {
		select {
		case <-m.cfg.Changed:
		case <-beat.C:
		case <-ctx.Done():
			return
		}
		m.cfg.Collect(time.Now())
		has := told{m.cfg.Publisher.Delta(last.sequence).Sequence, m.cfg.Places.Head()}
		if has != last {
			last = has
			m.fresh.raise()
		}
		pause(ctx, Gap(m.peers()))
	}
}

func (m *Mesh) peers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.members)
}

// tell hands on the sums. One goroutine does, so that none overtakes a later one.
func (m *Mesh) tell(ctx context.Context) {
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	var keys []loads.Key
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-expire.C:
			m.mu.Lock()
			m.note(m.table.Expire(now, silence))
			m.mu.Unlock()
			continue
		case <-m.moved:
		}
		m.mu.Lock()
		keys = keys[:0]
		for k := range m.changed {
			keys = append(keys, k)
		}
		clear(m.changed)
		sums := m.table.Sums(keys, nil)
		m.mu.Unlock()
		m.cfg.OnSums(sums, time.Now())
	}
}

// dialAll keeps a dialler for each member with a higher name.
func (m *Mesh) dialAll(ctx context.Context) {
	type dialler struct {
		address string
		stop    context.CancelFunc
	}
	diallers := map[string]dialler{}
	var work sync.WaitGroup
	defer work.Wait()
	for {
		wanted := m.higher()
		for name, d := range diallers {
			if wanted[name] != d.address {
				d.stop()
				delete(diallers, name)
			}
		}
		for name, address := range wanted {
			if _, ok := diallers[name]; !ok {
				ctx, stop := context.WithCancel(ctx)
				diallers[name] = dialler{address, stop}
				work.Go(func() { m.dial(ctx, name, address) })
			}
		}
		select {
		case <-ctx.Done():
			for _, d := range diallers {
				d.stop()
			}
			return
		case <-m.renamed:
		}
	}
}

// higher returns the members that this router dials.
func (m *Mesh) higher() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]string{}
	for name, address := range m.members {
		if name > m.cfg.Identity.Name {
			out[name] = address
		}
	}
	return out
}

// dial keeps a stream open with one member.
func (m *Mesh) dial(ctx context.Context, name, address string) {
	retry := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := m.connect(ctx, name, address)
		if ctx.Err() != nil {
			return
		}
		m.cfg.Log.DebugContext(ctx, "the stream of loads ended", "router", name, "reason", err)
		if time.Since(began) > retryMost {
			retry = retryFirst
		}
		pause(ctx, retry)
		retry = min(2*retry, retryMost)
	}
}

// Why a stream of loads ends.
var (
	errReplaced = errors.New("replaced, or no longer a member")
	errCluster  = errors.New("this router joined a cluster")
)
