package consensus

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// replay brings the machine to what is known to be committed, before raft starts: a
// replica that restarts serves the epoch it had, with or without the others.
func (m *machine) replay(st stores, committed uint64) error {
	snapshots, err := st.snaps.List() // newest first
	if err != nil {
		return fmt.Errorf("list the snapshots: %w", err)
	}
	if len(snapshots) > 0 {
		_, content, err := st.snaps.Open(snapshots[0].ID)
		if err != nil {
			return fmt.Errorf("open a snapshot: %w", err)
		}
		if err := m.Restore(content); err != nil {
			return err
		}
	}
	first, err := st.logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for index := max(first, m.index+1); first > 0 && index <= committed; index++ {
		var entry raft.Log
		if err := st.logs.GetLog(index, &entry); err != nil {
			return fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if entry.Type == raft.LogCommand {
			m.Apply(&entry)
		}
	}
	return nil
}

// commands reports whether the log or a snapshot may hold a founding.
func (st stores) commands() bool {
	snapshots, err := st.snaps.List()
	if err != nil || len(snapshots) > 0 {
		return true
	}
	first, err := st.logs.FirstIndex()
	last, errLast := st.logs.LastIndex()
	if err != nil || errLast != nil {
		return true
	}
	for index := max(first, 1); index <= last; index++ {
		var entry raft.Log
		if err := st.logs.GetLog(index, &entry); err != nil || entry.Type == raft.LogCommand {
			return true
		}
	}
	return false
}
