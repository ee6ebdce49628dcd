package consensus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

func openTest(t *testing.T, dir string) *file {
	t.Helper()
	f, err := openFile(dir, rand.Reader, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileKeepsAllTogether(t *testing.T) {
	dir := t.TempDir()
	f := openTest(t, dir)
	id := f.identity()
	if len(id.Server) != 16 || !id.blank() {
		t.Errorf("a blank file has the identity %+v", id)
	}
	id.Cluster, id.Generation = "X", 3
	stamp := time.Unix(17, 42)
	entry := &raft.Log{Index: 7, Term: 2, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: stamp}
	if err := errors.Join(f.become(id, false), f.StoreLogs([]*raft.Log{entry, {Index: 8, Term: 3, Type: raft.LogCommand}}), f.commit(9),
		f.Set([]byte("LastVoteCand"), []byte("s1")), f.SetUint64([]byte(raftVoteTerm), 5), f.close()); err != nil {
		t.Fatal(err)
	}
	f = openTest(t, dir)
	t.Cleanup(func() { _ = f.close() })
	if f.identity() != id {
		t.Errorf("identity %+v, want %+v", f.identity(), id)
	}
	var got raft.Log
	if err := f.GetLog(7, &got); err != nil || !cmp.Equal(*entry, got) {
		t.Errorf("GetLog: %v %s", err, cmp.Diff(*entry, got))
	}
	first, _ := f.FirstIndex()
	last, _ := f.LastIndex()
	committed, _ := f.committed()
	vote, _ := f.Get([]byte("LastVoteCand"))
	if first != 7 || last != 8 || committed != 8 || string(vote) != "s1" {
		t.Errorf("first %d, last %d, committed %d, vote %q", first, last, committed, vote)
	}
	if term, err := f.GetUint64([]byte(raftTerm)); term != 5 || err != nil {
		t.Errorf("the term is %d (%v), below the vote's", term, err)
	}
	if err := f.GetLog(9, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("GetLog(9): %v", err)
	}
	if err := f.DeleteRange(7, 8); err != nil {
		t.Error(err)
	}
	if last, err := f.LastIndex(); last != 0 || err != nil {
		t.Errorf("LastIndex %d %v", last, err)
	}
}

func TestFileDropsEverythingAtOnce(t *testing.T) {
	dir := t.TempDir()
	f := openTest(t, dir)
	t.Cleanup(func() { _ = f.close() })
	st, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := st.snaps.Create(1, 3, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sink.Close(), f.StoreLog(&raft.Log{Index: 4}), f.SetUint64([]byte(raftTerm), 9)); err != nil {
		t.Fatal(err)
	}
	id, err := newIdentity(rand.Reader, "X", 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.become(id, true); err != nil {
		t.Fatal(err)
	}
	st, err = f.open()
	if err != nil {
		t.Fatal(err)
	}
	snapshots, _ := st.snaps.List()
	last, _ := f.LastIndex()
	term, _ := f.GetUint64([]byte(raftTerm))
	left, _ := os.ReadDir(filepath.Join(dir, "snapshots"))
	if len(snapshots) != 0 || last != 0 || term != 0 || len(left) != 1 {
		t.Errorf("%d snapshots, last %d, term %d, %d directories", len(snapshots), last, term, len(left))
	}
}

func TestFileErrorsNameThePath(t *testing.T) {
	dir := t.TempDir()
	f := openTest(t, dir)
	path := filepath.Join(dir, "warmring.raft")
	_, err := openFile(dir, rand.Reader, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("locked: %v", err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string][]byte{"garbage": []byte(strings.Repeat("no", 40000)), "short": []byte("x")} {
		if err := os.WriteFile(path, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openFile(dir, rand.Reader, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is lost or overwritten, the file opens or the error says what to do: bbolt alone would end the process.
func TestDamagedFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	f := openTest(t, dir)
	for index := range uint64(40) {
		entry := &raft.Log{Index: index + 1, Term: 1, Data: []byte(strings.Repeat("x", int(index)*100))}
		if index == 20 {
			entry.Data = make([]byte, 20_000)
		}
		if err := f.StoreLog(entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "warmring.raft")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	damaged := map[string][]byte{}
	for at := 2 * page; at < len(whole); at += page {
		damaged[fmt.Sprintf("cut at %d", at)] = whole[:at]
		for _, from := range []int{0, 512, 1024} { // sectors that were not written
			text := slices.Clone(whole)
			clear(text[at+from : at+page])
			damaged[fmt.Sprintf("nothing from %d on", at+from)] = text
		}
		another := slices.Clone(whole)
		copy(another[at:at+page], whole[at-page:at])
		damaged[fmt.Sprintf("another page at %d", at)] = another
	}
	refused := 0
	for name, text := range damaged {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openFile(dir, rand.Reader, slog.New(slog.DiscardHandler))
		if err == nil { // a free page
			_ = f.close()
			continue
		}
		refused++
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if refused < len(damaged)/10 {
		t.Errorf("%d of %d were refused", refused, len(damaged))
	}
}

// A disk that is full must be seen in the log, with the reason, and not with each attempt.
func TestFileTellsWhyItCannotBeWritten(t *testing.T) {
	var said strings.Builder
	f, err := openFile(t.TempDir(), rand.Reader, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatal(err)
	}
	f.write = func(func(*bbolt.Tx) error) error { return syscall.ENOSPC }
	for range 5 {
		if err := f.StoreLog(&raft.Log{Index: 1}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("stored: %v", err)
		}
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no space left") || !strings.Contains(text, "level=ERROR") {
		t.Errorf("said %q", text)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileCountsFailures(t *testing.T) {
	f := openTest(t, t.TempDir())
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for range storeErrors {
		if err := f.StoreLog(&raft.Log{Index: 1}); err == nil {
			t.Fatal("a closed file took an entry")
		}
	}
	if err := f.SetUint64([]byte(raftTerm), 4); err != nil {
		t.Errorf("raft would panic: %v", err)
	}
	if err := f.SetUint64([]byte(raftVoteTerm), 4); err == nil {
		t.Error("a vote was promised that is not on disk")
	}
	if f.failures() < storeErrors {
		t.Errorf("%d failures", f.failures())
	}
}
