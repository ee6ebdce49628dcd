package consensus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// bucket names of the data file.
const (
	bucketMeta   = "meta" // identity and commit index
	bucketLog    = "log"
	bucketStable = "stable" // raft's term and vote
	keyIdentity  = "identity"
	keyCommit    = "commit"

	snapshotsKept = 2
	lockTimeout   = time.Second // for the file's lock, held by another process
)

// file is the vault of a replica with a data directory: identity, log, vote and
// commit index in one bbolt file, so that none can be lost or restored without the
// others, and the snapshots of that log beside it.
type file struct {
	db     *bbolt.DB
	dir    string
	id     atomic.Pointer[identity]
	term   atomic.Uint64 // raft's term where the file could not take it
	failed atomic.Int64
	told   atomic.Int64 // when a failure was last logged, Unix nanoseconds
	log    *slog.Logger
	random io.Reader
	write  func(func(*bbolt.Tx) error) error // db.Update, unless a test makes it fail
}

// openFile opens or makes the data file in dir. Errors name its path.
func openFile(dir string, random io.Reader, log *slog.Logger) (*file, error) {
	path := filepath.Join(dir, "warmring.raft")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("consensus.data_dir: %w", err)
	}
	db, err := openBolt(path)
	switch {
	case errors.Is(err, bbolt.ErrTimeout): //nolint:staticcheck // the alias and the original are one value
		return nil, fmt.Errorf("consensus.data_dir: %s is in use by another process", path)
	case err != nil:
		return nil, fmt.Errorf("consensus.data_dir: %s cannot be read (%w); if it is damaged, remove the directory: the replica then joins as a new one", path, err)
	}
	f := &file{db: db, dir: dir, log: log, random: random, write: db.Update}
	if err := f.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("consensus.data_dir: %s: %w", path, err), db.Close())
	}
	log.Info("data file opened", "path", path, "server", f.identity().Server, "cluster", f.identity().Cluster)
	return f, nil
}

// openBolt opens the file. bbolt panics on some damage, and reads where a file that was cut short has nothing; both become
// errors here, for all that is in the file.
func openBolt(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("%v", broken)
		}
	}()
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := readAll(path); err != nil {
			return nil, err
		}
	}
	return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
}

// readAll reads every key and value. Opening the file for writing would follow damage to a panic in a goroutine of bbolt's
// own, which nobody can recover from.
func readAll(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			var last []byte
			sum := fnv.New64a()
			return b.ForEach(func(k, v []byte) error {
				if last != nil && bytes.Compare(last, k) >= 0 {
					return fmt.Errorf("keys of bucket %s are out of order", name)
				}
				last = k
				_, err := sum.Write(v) // which touches all of it
				return err
			})
		})
	})
}

// load reads the identity, or makes one in a blank file.
func (f *file) load() error {
	var id identity
	err := f.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if meta == nil {
			return nil
		}
		if err := json.Unmarshal(meta.Get([]byte(keyIdentity)), &id); err != nil {
			return fmt.Errorf("the identity cannot be read: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if id.Server != "" {
		f.id.Store(&id)
		return nil
	}
	id, err = newIdentity(f.random, "", 0)
	if err != nil {
		return err
	}
	return f.become(id, true)
}

func (f *file) identity() identity { return *f.id.Load() }
func (f *file) failures() int      { return int(f.failed.Load()) }
func (f *file) close() error       { return f.db.Close() }

func (f *file) become(id identity, drop bool) error {
	raw, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode the identity: %w", err)
	}
	err = f.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{bucketMeta, bucketLog, bucketStable} {
			if drop && tx.Bucket([]byte(name)) != nil {
				if err := tx.DeleteBucket([]byte(name)); err != nil {
					return err
				}
			}
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyIdentity), raw)
	})
	if err != nil {
		return fmt.Errorf("write the identity to %s: %w", f.db.Path(), err)
	}
	if drop {
		f.term.Store(0)
	}
	f.id.Store(&id)
	return nil
}

// open opens the snapshots that belong to this identity's log and removes any that
// do not: a crash may have come between dropping a log and dropping its snapshots.
func (f *file) open() (stores, error) {
	all := filepath.Join(f.dir, "snapshots")
	mine := filepath.Join(all, f.identity().Store)
	if err := os.MkdirAll(mine, 0o700); err != nil {
		return stores{}, fmt.Errorf("consensus.data_dir: %w", err)
	}
	others, err := os.ReadDir(all)
	if err != nil {
		return stores{}, fmt.Errorf("consensus.data_dir: %w", err)
	}
	for _, other := range others {
		if other.Name() == f.identity().Store {
			continue
		}
		if err := os.RemoveAll(filepath.Join(all, other.Name())); err != nil {
			return stores{}, fmt.Errorf("consensus.data_dir: %w", err)
		}
	}
	snaps, err := raft.NewFileSnapshotStore(mine, snapshotsKept, io.Discard)
	if err != nil {
		return stores{}, fmt.Errorf("consensus.data_dir: %s: %w", mine, err)
	}
	return stores{logs: f, stable: f, snaps: snaps}, nil
}

// update writes and keeps count of failures in a row.
func (f *file) update(fn func(*bbolt.Tx) error) error {
	err := f.write(fn)
	if err != nil {
		f.failed.Add(1)
		f.tell(err)
		return err
	}
	f.failed.Store(0)
	return nil
}

// tell logs why the file cannot be written, once in a while: raft tries again and again.
func (f *file) tell(err error) {
	const pause = time.Minute
	now, last := time.Now().UnixNano(), f.told.Load()
	if now-last >= int64(pause) && f.told.CompareAndSwap(last, now) {
		f.log.Error("the data file cannot be written (consensus.data_dir)", "path", f.db.Path(), "error", err)
	}
}
