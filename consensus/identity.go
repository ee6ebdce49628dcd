package consensus

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// identity is who a server is and what it is bound to. It lives and dies with the
// log and the vote: a store without one gets a new server id, so that nobody can
// come back under an old id without what the id promised.
type identity struct {
	Server     string `json:"server"`
	Cluster    string `json:"cluster,omitempty"` // "" as long as it is bound to none
	Generation uint64 `json:"generation,omitempty"`
	// Store names the snapshots that belong to this log; new with each log.
	Store string `json:"store"`
}

func (i identity) blank() bool { return i.Cluster == "" }

// newIdentity is a server that never was, bound to the cluster and generation.
func newIdentity(random io.Reader, cluster string, generation uint64) (identity, error) {
	server, err := newID(random)
	if err != nil {
		return identity{}, err
	}
	return identity{Server: server, Cluster: cluster, Generation: generation, Store: server}, nil
}

// newID is 64 random bits in hex.
func newID(random io.Reader) (string, error) {
	var raw [8]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return hex.EncodeToString(raw[:]), nil
}

// stores is what one raft object works on.
type stores struct {
	logs   raft.LogStore
	stable raft.StableStore
	snaps  raft.SnapshotStore
}

// vault holds one identity and its stores.
type vault interface {
	identity() identity
	// become changes the identity; drop begins an empty log with it, in one step.
	become(id identity, drop bool) error
	open() (stores, error)
	commit(index uint64) error  // notes that entries in the log are committed
	committed() (uint64, error) // what commit noted last
	failures() int              // writes that failed since the last that did not
	close() error
}

// memory is the vault of a replica without a disk. raft warns against its own
// in-memory store because a restart forgets votes; here a restart is a new id, which
// no vote was given under.
type memory struct {
	id identity
	s  stores
}

func newMemory(random io.Reader) (*memory, error) {
	id, err := newIdentity(random, "", 0)
	if err != nil {
		return nil, err
	}
	m := &memory{}
	return m, m.become(id, true)
}

func (m *memory) identity() identity { return m.id }

func (m *memory) become(id identity, drop bool) error {
	m.id = id
	if drop {
		s := raft.NewInmemStore()
		m.s = stores{logs: s, stable: s, snaps: raft.NewInmemSnapshotStore()}
	}
	return nil
}

func (m *memory) open() (stores, error)      { return m.s, nil }
func (m *memory) commit(uint64) error        { return nil }
func (m *memory) committed() (uint64, error) { return 0, nil }
func (m *memory) failures() int              { return 0 }
func (m *memory) close() error               { return nil }
