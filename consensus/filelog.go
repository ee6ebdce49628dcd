package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// What raft calls its values in the stable store.
const (
	raftTerm     = "CurrentTerm"
	raftVoteTerm = "LastVoteTerm"
)

func key(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// FirstIndex is the oldest entry's index, 0 for an empty log.
func (f *file) FirstIndex() (uint64, error) { return f.edge((*bbolt.Cursor).First) }

// LastIndex is the newest entry's index, 0 for an empty log.
func (f *file) LastIndex() (uint64, error) { return f.edge((*bbolt.Cursor).Last) }

func (f *file) edge(move func(*bbolt.Cursor) ([]byte, []byte)) (index uint64, err error) {
	err = f.db.View(func(tx *bbolt.Tx) error {
		if k, _ := move(tx.Bucket([]byte(bucketLog)).Cursor()); k != nil {
			index = binary.BigEndian.Uint64(k)
		}
		return nil
	})
	return index, err
}

// GetLog reads the entry at index, or is raft.ErrLogNotFound.
func (f *file) GetLog(index uint64, entry *raft.Log) error {
	return f.db.View(func(tx *bbolt.Tx) error {
		raw := tx.Bucket([]byte(bucketLog)).Get(key(index))
		if raw == nil {
			return raft.ErrLogNotFound
		}
		return decodeEntry(index, raw, entry)
	})
}

// StoreLog writes one entry.
func (f *file) StoreLog(entry *raft.Log) error { return f.StoreLogs([]*raft.Log{entry}) }

// StoreLogs writes entries, all or none.
func (f *file) StoreLogs(entries []*raft.Log) error {
	return f.update(func(tx *bbolt.Tx) error {
		logs := tx.Bucket([]byte(bucketLog))
		for _, entry := range entries {
			if err := logs.Put(key(entry.Index), encodeEntry(entry)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteRange removes the entries from low to high, both included.
func (f *file) DeleteRange(low, high uint64) error {
	return f.update(func(tx *bbolt.Tx) error {
		logs := tx.Bucket([]byte(bucketLog))
		for index := low; index <= high; index++ {
			if err := logs.Delete(key(index)); err != nil {
				return err
			}
		}
		return nil
	})
}

// commit notes that the entries up to index, which are on disk already, are
// committed. raft's own way to keep a commit index is not used: in raft v1.8.0 it
// begins the search for the configuration after the commit index, so that a voter
// restarts without knowing the voters.
func (f *file) commit(index uint64) error {
	return f.update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyCommit), key(index))
	})
}

// committed is the commit index on disk, never above the last entry.
func (f *file) committed() (index uint64, err error) {
	last, err := f.LastIndex()
	if err != nil {
		return 0, err
	}
	err = f.db.View(func(tx *bbolt.Tx) error {
		if raw := tx.Bucket([]byte(bucketMeta)).Get([]byte(keyCommit)); len(raw) == 8 {
			index = binary.BigEndian.Uint64(raw)
		}
		return nil
	})
	return min(index, last), err
}

// Set writes a value of raft's stable store.
func (f *file) Set(k, v []byte) error {
	return f.update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketStable)).Put(k, v) })
}

// Get reads a value of raft's stable store, empty where there is none.
func (f *file) Get(k []byte) (v []byte, err error) {
	err = f.db.View(func(tx *bbolt.Tx) error {
		v = append(v, tx.Bucket([]byte(bucketStable)).Get(k)...)
		return nil
	})
	return v, err
}

// SetUint64 writes a number of raft's stable store. raft panics when it cannot keep
// its term, which would end the process that serves traffic; so a term that cannot
// be written stays in memory, and GetUint64 takes it from the vote and the log
// after a crash. Nothing that raft promises in a term is lost by that, because both
// must be on disk before it promises.
func (f *file) SetUint64(k []byte, v uint64) error {
	err := f.Set(k, key(v))
	if string(k) != raftTerm {
		return err
	}
	f.term.Store(v)
	return nil
}

// GetUint64 reads a number of raft's stable store, 0 where there is none.
func (f *file) GetUint64(k []byte) (uint64, error) {
	v, err := f.number(string(k))
	if err != nil || string(k) != raftTerm {
		return v, err
	}
	vote, err := f.number(raftVoteTerm)
	if err != nil {
		return 0, err
	}
	var last raft.Log
	index, err := f.LastIndex()
	if err == nil && index > 0 {
		err = f.GetLog(index, &last)
	}
	return max(v, vote, last.Term, f.term.Load()), err
}

func (f *file) number(k string) (uint64, error) {
	raw, err := f.Get([]byte(k))
	switch {
	case err != nil || len(raw) == 0:
		return 0, err
	case len(raw) != 8:
		return 0, fmt.Errorf("%s in the data file is not a number", k)
	default:
		return binary.BigEndian.Uint64(raw), nil
	}
}

// An entry on disk: term, type, time, length of the extensions, extensions, data.
const entryHead = 8 + 1 + 8 + 4

func encodeEntry(e *raft.Log) []byte {
	raw := make([]byte, 0, entryHead+len(e.Extensions)+len(e.Data))
	raw = binary.BigEndian.AppendUint64(raw, e.Term)
	raw = append(raw, byte(e.Type))
	var stamp int64
	if !e.AppendedAt.IsZero() {
		stamp = e.AppendedAt.UnixNano()
	}
	raw = binary.BigEndian.AppendUint64(raw, uint64(stamp))
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(e.Extensions)))
	raw = append(raw, e.Extensions...)
	return append(raw, e.Data...)
}

func decodeEntry(index uint64, raw []byte, e *raft.Log) error {
	if len(raw) < entryHead {
		return errors.New("an entry of the log is cut short")
	}
	extensions := int(binary.BigEndian.Uint32(raw[17:]))
	body := raw[entryHead:]
	if extensions > len(body) {
		return errors.New("an entry of the log is cut short")
	}
	*e = raft.Log{Index: index, Term: binary.BigEndian.Uint64(raw), Type: raft.LogType(raw[8])}
	if stamp := int64(binary.BigEndian.Uint64(raw[9:])); stamp != 0 {
		e.AppendedAt = time.Unix(0, stamp)
	}
	// What bbolt returns is void after the transaction.
	e.Extensions = append([]byte(nil), body[:extensions]...)
	e.Data = append([]byte(nil), body[extensions:]...)
	return nil
}
