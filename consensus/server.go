package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	transportTimeout = 2 * time.Second // of one raft call
	transportPool    = 3               // idle connections to one server
	trailingLogs     = 512             // entries kept behind a snapshot
	snapshotAfter    = 256             // entries
	snapshotEvery    = time.Minute
)

// server is one raft object with all that belongs to it. A replica has one at a
// time; it is replaced by a fresh one when it is removed or superseded, while
// traffic goes on.
type server struct {
	bound   atomic.Pointer[identity]
	raft    *raft.Raft
	machine *machine
	stores  stores
	stream  *stream
	network *raft.NetworkTransport
	preVote bool
	// leaderSince is when it last became the leader, Unix nanoseconds; 0 when it is not.
	leaderSince atomic.Int64
	notified    sync.WaitGroup
	leading     chan bool // raft writes to it and waits, so follow always reads
	over        chan struct{}
	stopped     sync.Once
	barrier     uint64 // term in which everything before was applied; only commit uses it
}

// start makes the raft object for the vault's identity.
func (l *Log) start(ctx context.Context) (*server, error) {
	st, err := l.vault.open()
	if err != nil {
		return nil, err
	}
	id := l.vault.identity()
	s := &server{leading: make(chan bool, 8), over: make(chan struct{})}
	s.bound.Store(&id)
	s.stores, s.machine = st, &machine{}
	s.machine.committed = func() { l.publish(s.machine) }
	committed, err := l.vault.committed()
	if err == nil {
		err = s.machine.replay(st, committed)
	}
	if err != nil {
		return nil, err
	}
	s.machine.applied = func(index uint64) { _ = l.vault.commit(index) } // a failure counts as one of the store
	s.stream = newStream(ctx, id.Server, func(ctx context.Context, target string) (net.Conn, error) {
		return l.connect(ctx, s, target)
	})
	logger := newLogger(l.log)
	s.network = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s.stream, MaxPool: transportPool, Timeout: transportTimeout, Logger: logger, MsgpackUseNewTimeFormat: true,
		MaxRPCsInFlight: 1, // no pipeline: see DESIGN.md
	})
	config := l.raftConfig(id.Server)
	config.Logger, config.NotifyCh = logger, s.leading
	_, s.preVote = any(s.network).(raft.WithPreVote)
	s.preVote = s.preVote && !config.PreVoteDisabled
	if !s.preVote {
		return nil, errors.Join(errors.New("raft would run without pre-vote: a replica that comes back could depose a healthy leader"), s.network.Close())
	}
	s.raft, err = raft.NewRaft(config, s.machine, st.logs, st.stable, st.snaps, s.network)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start raft: %w", err), s.network.Close())
	}
	s.notified.Go(func() { s.follow(l.poke) })
	if voters := s.voters(); len(voters) == 1 && voters[0] == id.Server {
		s.elect(ctx, l.log)
	}
	return s, nil
}

// elect begins an election without the silence of a leader that comes before others: for a server that knows that
// nobody leads. Raft takes it for a leader that hands over, which needs no pre-vote.
func (s *server) elect(ctx context.Context, log *slog.Logger) {
	id := s.identity().Server
	request := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	err := s.network.TimeoutNow(raft.ServerID(id), raft.ServerAddress(id), request, &raft.TimeoutNowResponse{})
	if err != nil { // the election comes by itself
		log.DebugContext(ctx, "no election at once", "error", err)
	}
}

func (l *Log) raftConfig(server string) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(server)
	c.HeartbeatTimeout, c.ElectionTimeout = l.cfg.Heartbeat, l.cfg.Election
	c.LeaderLeaseTimeout = l.cfg.Heartbeat / 2
	c.CommitTimeout = l.cfg.Commit
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = trailingLogs, snapshotAfter, snapshotEvery
	c.ShutdownOnRemove = true
	c.NoLegacyTelemetry = true
	return c
}

// follow keeps leaderSince.
func (s *server) follow(changed func()) {
	for {
		select {
		case leads := <-s.leading:
			var since int64
			if leads {
				since = time.Now().UnixNano()
			}
			s.leaderSince.Store(since)
			changed()
		case <-s.over:
			return
		}
	}
}

// stop ends the raft object and its connections.
func (s *server) stop() (err error) {
	s.stopped.Do(func() {
		err = errors.Join(s.raft.Shutdown().Error(), s.network.Close(), s.stream.Close())
		close(s.over)
		s.notified.Wait()
	})
	if err != nil {
		return fmt.Errorf("stop raft: %w", err)
	}
	return nil
}

func (s *server) identity() identity { return *s.bound.Load() }

func (s *server) greeting(target string) greeting {
	id := s.identity()
	return greeting{Cluster: id.Cluster, Generation: id.Generation, ID: id.Server, Target: target}
}

func (s *server) leads() bool { return s.raft.State() == raft.Leader }

// leader is the id of the leader that this server follows, its own when it leads,
// "" for none.
func (s *server) leader() string {
	_, id := s.raft.LeaderWithID()
	return string(id)
}

// configuration is the newest list of servers in the log, committed or not.
func (s *server) configuration() []raft.Server {
	future := s.raft.GetConfiguration() // answers at once
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// voters are the ids of the voters, in the order of the configuration.
func (s *server) voters() []string {
	var out []string
	for _, server := range s.configuration() {
		if server.Suffrage == raft.Voter {
			out = append(out, string(server.ID))
		}
	}
	return out
}

// founded returns whether its generation has its first epoch.
func (s *server) founded() bool {
	epoch, _ := s.machine.now()
	return epoch != nil
}

// quorum reports whether it knows on its own evidence that a majority of voters of
// a founded generation works.
func (s *server) quorum() bool { return s.founded() && s.leader() != "" }
