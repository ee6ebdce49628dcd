package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/routing"
)

const (
	defaultGap       = 500 * time.Millisecond
	defaultMaxShrink = 0.2
)

// Log is this replica's part in the agreement. Its methods may be called from any
// goroutine while Run runs.
type Log struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	vault   vault
	current atomic.Pointer[server]

	turn     chan struct{} // one token: who holds it may replace the server or change what it is bound to
	poked    chan struct{}
	queue    chan *pending
	founded  atomic.Pointer[machine] // it has epochs that were not yet given to OnEpoch
	arrived  chan struct{}           // founded has news
	waiting  atomic.Pointer[string]
	futures  sync.WaitGroup
	leaving  atomic.Bool
	quorumAt atomic.Pointer[time.Time] // when it last knew a quorum, or began to look for one

	mu       sync.Mutex // guards what follows; never held over I/O
	members  []Member
	came     time.Time // when a router was seen that was not there before
	seeds    int       // addresses, and at how many of them somebody answered when members was made
	reached  int
	address  map[string]string // by server
	known    map[string]time.Time
	gone     map[string]departure
	promise  promise
	mine     Ballot            // own ballot, while it is a candidate
	answers  map[string]answer // by router name
	reported map[string]time.Time
	added    time.Time // when it last gave a server a seat without a vote

	unchecked bool // tests only: answer for any server id
}

// departure is when and where a server was last among the members, and what it said
// then.
type departure struct {
	at      time.Time
	leaving bool
	address string
}

// New makes a Log and opens its store. It starts nothing; Run must be called for
// the store to be closed.
func New(cfg Config, deps Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Expect != 1 && deps.Expect != 3 && deps.Expect != 5 {
		return nil, fmt.Errorf("cluster.expect: %d is not 1, 3 or 5", deps.Expect)
	}
	if deps.Gap == 0 {
		deps.Gap = defaultGap
	}
	if deps.MaxShrink == 0 {
		deps.MaxShrink = defaultMaxShrink
	}
	l := &Log{
		cfg: cfg, deps: deps, log: deps.Log, seeds: 1,
		turn: make(chan struct{}, 1), poked: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		queue: make(chan *pending, queueLength), address: map[string]string{}, known: map[string]time.Time{},
		gone: map[string]departure{}, answers: map[string]answer{}, reported: map[string]time.Time{},
	}
	var err error
	l.vault, err = openVault(cfg.DataDir, deps.Random, deps.Log)
	return l, err
}

func openVault(dir string, random io.Reader, log *slog.Logger) (vault, error) {
	if dir == "" {
		return newMemory(random)
	}
	return openFile(dir, random, log)
}

// Run takes part in the agreement until ctx ends, and then stops raft and closes
// the store and the listener. An error is one that the replica cannot go on with.
func (l *Log) Run(ctx context.Context) error {
	first, err := l.start(context.WithoutCancel(ctx))
	if err != nil {
		return errors.Join(err, l.deps.Listener.Close(), l.vault.close())
	}
	l.current.Store(first)
	l.patient()
	l.deps.OnChange()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.accept(ctx) })
	group.Go(func() error { return l.steer(ctx) })
	group.Go(func() error { return l.commit(ctx) })
	group.Go(func() error { return l.deliver(ctx) })
	err = group.Wait()
	err = errors.Join(err, l.current.Load().stop())
	l.futures.Wait() // raft has answered them all
	return errors.Join(err, l.vault.close())
}

// publish notes for deliver that a machine has a new epoch.
func (l *Log) publish(m *machine) {
	l.founded.Store(m)
	signal(l.arrived)
}

// deliver gives committed epochs to the node, apart from raft's goroutines.
func (l *Log) deliver(ctx context.Context) error {
	var last *routing.Epoch
	for {
		select {
		case <-l.arrived:
			epoch, steps := l.founded.Load().since(last)
			last = epoch
			l.deps.OnEpoch(epoch, steps)
			l.deps.OnChange()
		case <-ctx.Done():
			return nil
		}
	}
}

// signal leaves one token in ch unless there is one.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// poke makes steer look at once.
func (l *Log) poke() { signal(l.poked) }

// patient begins the time anew for which no quorum may be known.
func (l *Log) patient() {
	now := time.Now()
	l.quorumAt.Store(&now)
}

// exclusively runs fn while nothing else replaces the server or what it is bound to.
func (l *Log) exclusively(ctx context.Context, fn func(s *server) error) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	return fn(l.current.Load())
}

// replace puts a fresh server with this identity in the place of s. To be called
// within exclusively.
func (l *Log) replace(ctx context.Context, s *server, id identity) (*server, error) {
	if err := s.stop(); err != nil {
		l.log.WarnContext(ctx, "old raft server did not stop cleanly", "server", s.identity().Server, "error", err)
	}
	if err := l.vault.become(id, true); err != nil {
		return nil, err
	}
	next, err := l.start(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	l.current.Store(next)
	l.patient()
	l.log.InfoContext(ctx, "raft server replaced", "old", s.identity().Server, "new", id.Server, "cluster", id.Cluster, "generation", id.Generation)
	l.deps.OnChange()
	return next, nil
}

// reset begins again as a new server, bound to the cluster and generation ("" and 0
// for none).
func (l *Log) reset(ctx context.Context, cluster string, generation uint64) error {
	return l.exclusively(ctx, func(s *server) error {
		id, err := newIdentity(l.deps.Random, cluster, generation)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.promise, l.mine = promise{}, Ballot{}
		l.mu.Unlock()
		_, err = l.replace(ctx, s, id)
		return err
	})
}

// bind binds a server that has no log yet.
func (l *Log) bind(s *server, cluster string, generation uint64) error {
	id := s.identity()
	id.Cluster, id.Generation = cluster, generation
	if err := l.vault.become(id, false); err != nil {
		return err
	}
	s.bound.Store(&id)
	l.patient()
	l.log.Info("bound to cluster", "cluster", cluster, "generation", generation, "server", id.Server)
	l.deps.OnChange()
	return nil
}

// SetMembers gives the alive routers, this one included, and how many seed addresses there are and at how many of them a
// router answered: who did must be among the members, for one that founds a cluster alone must not overlook it. Until the
// first call nothing is founded. It does not keep the slice.
func (l *Log) SetMembers(members []Member, seeds, reached int) {
	now := time.Now()
	l.mu.Lock()
	l.remember(l.members, now) // they were alive until now
	same := slices.Equal(l.members, members) && l.seeds == seeds && l.reached == reached
	l.seeds, l.reached = seeds, reached
	l.members = slices.Clone(members)
	l.remember(l.members, now)
	if slices.ContainsFunc(members, func(m Member) bool { return l.address[m.Server] == "" }) {
		l.came = now
	}
	clear(l.address)
	here := make(map[string]bool, len(members))
	for _, m := range members {
		here[m.Name] = true
		l.address[m.Server] = m.Address
	}
	maps.DeleteFunc(l.answers, func(name string, _ answer) bool { return !here[name] })
	l.mu.Unlock()
	if !same {
		l.poke()
	}
}

// remember notes that members were alive. The caller holds the lock.
func (l *Log) remember(members []Member, now time.Time) {
	for _, m := range members {
		l.gone[m.Server] = departure{now, m.Leaving, m.Address}
		if m.Leaving {
			delete(l.known, m.Address) // it goes on purpose
		} else {
			l.known[m.Address] = now
		}
	}
	maps.DeleteFunc(l.known, func(_ string, seen time.Time) bool { return now.Sub(seen) > memoryOfMembers })
	maps.DeleteFunc(l.gone, func(_ string, d departure) bool { return now.Sub(d.at) > memoryOfMembers })
}

func (l *Log) addressOf(server string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	address, ok := l.address[server]
	return address, ok
}
