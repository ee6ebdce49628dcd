package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/warmring/warmring/routing"
)

const (
	requestsKept = 1024 // request ids that are recognised as repetitions
	epochsKept   = 64   // epochs that a repetition can be answered with
)

// machine is the state that the log's entries make: the same entries give the same
// state, however they are batched, and through snapshots.
type machine struct {
	committed func()             // there is a new epoch; must not block
	applied   func(index uint64) // after each entry; nil while a log is replayed

	mu      sync.Mutex // guards what follows
	index   uint64     // of the last entry applied
	cluster string
	aborted bool
	epoch   *routing.Epoch // nil before the cluster is founded
	done    []request      // oldest first
	past    []Step         // oldest first, without a gap; the last one made epoch
}

// request is a proposal that was applied and the epoch's number it gave.
type request struct {
	ID     string `json:"id"`
	Number uint64 `json:"number"`
}

// outcome is what one proposal of a batch came to.
type outcome struct {
	epoch *routing.Epoch
	err   error
}

// now returns the epoch, nil before the founding, and whether founding was given up.
func (m *machine) now() (epoch *routing.Epoch, aborted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.aborted
}

// Apply applies one entry. It returns an error for an entry that is refused as a
// whole, and else one outcome for each proposal.
func (m *machine) Apply(entry *raft.Log) any {
	var c command
	if err := json.Unmarshal(entry.Data, &c); err != nil {
		return fmt.Errorf("the entry cannot be read: %w", err)
	}
	m.mu.Lock()
	if entry.Index <= m.index { // replayed before raft started
		m.mu.Unlock()
		return nil
	}
	before := m.epoch
	result := m.apply(&c)
	after := m.epoch
	m.index = entry.Index
	m.mu.Unlock()
	if m.applied != nil {
		m.applied(entry.Index)
	}
	if after != before {
		m.committed()
	}
	return result
}

func (m *machine) apply(c *command) any {
	switch {
	case c.Version != commandVersion:
		// A replica that knows the version would apply it and diverge from this one,
		// so the leader may only send what all understand; refusing is the same everywhere.
		return fmt.Errorf("entries of version %d are not understood", c.Version)
	case c.Found != nil:
		return m.found(c.Found)
	case c.Abort:
		if m.epoch != nil {
			return errors.New("the cluster is founded")
		}
		m.aborted = true
		return nil
	default:
		out := make([]outcome, len(c.Batch))
		for i := range c.Batch {
			out[i] = m.propose(&c.Batch[i])
		}
		return out
	}
}

// found sets the first epoch. Of several foundings in a log the first counts.
func (m *machine) found(f *founding) any {
	if m.epoch != nil || m.aborted {
		return errors.New("the cluster is founded or given up")
	}
	epoch, err := f.Image.Epoch()
	if err != nil {
		return fmt.Errorf("the first epoch cannot be read: %w", err)
	}
	m.cluster = f.Cluster
	m.advance(Step{Epoch: epoch})
	return nil
}

func (m *machine) propose(p *proposed) outcome {
	if m.epoch == nil {
		return outcome{err: ErrNoQuorum}
	}
	if i := slices.IndexFunc(m.done, func(r request) bool { return p.ID != "" && r.ID == p.ID }); i >= 0 {
		return outcome{epoch: m.at(m.done[i].Number)}
	}
	if have := (Base{m.epoch.Generation(), m.epoch.Number()}); p.Base != (Base{}) && p.Base != have {
		return outcome{err: fmt.Errorf("%w: it was %d.%d and is %s", ErrConflict, p.Base.Generation, p.Base.Number, m.epoch.ID())}
	}
	next, err := m.epoch.Apply(p.Change)
	if err != nil {
		return outcome{err: err}
	}
	m.advance(Step{Epoch: next, Change: p.Change, By: p.By})
	if p.ID != "" {
		m.done = append(m.done, request{p.ID, next.Number()})
		m.done = m.done[max(0, len(m.done)-requestsKept):]
	}
	return outcome{epoch: next}
}

func (m *machine) advance(next Step) {
	m.epoch = next.Epoch
	m.past = append(m.past, next)
	m.past = slices.Clone(m.past[max(0, len(m.past)-epochsKept):])
}

// at is the epoch of that number, or the current one when it is no longer held.
func (m *machine) at(number uint64) *routing.Epoch {
	for _, s := range m.past {
		if s.Epoch.Number() == number {
			return s.Epoch
		}
	}
	return m.epoch
}

// since returns the epoch and the steps that lead to it from another one, as far as they are still held.
func (m *machine) since(from *routing.Epoch) (*routing.Epoch, []Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.past {
		if from != nil && s.Epoch.Compare(from) > 0 {
			return m.epoch, slices.Clone(m.past[i:])
		}
	}
	return m.epoch, nil
}

// image is the machine's state in a snapshot.
type image struct {
	Version int            `json:"version"`
	Index   uint64         `json:"index"`
	Cluster string         `json:"cluster"`
	Aborted bool           `json:"aborted,omitempty"`
	Epoch   *routing.Image `json:"epoch,omitempty"`
	Done    []request      `json:"done,omitempty"`
}

// Snapshot returns the state as it is now; writing it out happens later.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := image{Version: commandVersion, Index: m.index, Cluster: m.cluster, Aborted: m.aborted, Done: slices.Clone(m.done)}
	if m.epoch != nil {
		epoch := m.epoch.Image()
		s.Epoch = &epoch
	}
	return s, nil
}

// Persist writes the snapshot.
func (s image) Persist(sink raft.SnapshotSink) error {
	if err := json.NewEncoder(sink).Encode(s); err != nil {
		return errors.Join(fmt.Errorf("write a snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release does nothing: a snapshot shares no memory that could be freed.
func (image) Release() {}

// Restore replaces the state by a snapshot's, unless it has applied more entries of
// the same log already.
func (m *machine) Restore(r io.ReadCloser) error {
	var s image
	err := json.NewDecoder(r).Decode(&s)
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	if s.Version != commandVersion {
		return fmt.Errorf("snapshots of version %d are not understood", s.Version)
	}
	var epoch *routing.Epoch
	if s.Epoch != nil {
		if epoch, err = s.Epoch.Epoch(); err != nil {
			return fmt.Errorf("read a snapshot's epoch: %w", err)
		}
	}
	m.mu.Lock()
	if s.Index < m.index {
		m.mu.Unlock()
		return nil
	}
	m.index, m.cluster, m.aborted, m.epoch, m.done, m.past = s.Index, s.Cluster, s.Aborted, epoch, s.Done, nil
	if epoch != nil {
		m.past = []Step{{Epoch: epoch}}
	}
	m.mu.Unlock()
	if epoch != nil {
		m.committed()
	}
	return nil
}
