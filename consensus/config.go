package consensus

import (
	"errors"
	"fmt"
	"time"
)

// Config is the consensus section of the configuration.
type Config struct {
	// DataDir holds one file with the server's identity, log and vote, and the
	// snapshots beside it. Empty: in memory, and each start is a new server.
	DataDir   string        `yaml:"data_dir"`
	Heartbeat time.Duration `yaml:"heartbeat"` // silence of the leader before an election
	Election  time.Duration `yaml:"election"`  // how long one election may take, before jitter
	// Commit is how long the leader may keep a commit to itself; it bounds the
	// skew with which voters see an epoch.
	Commit time.Duration `yaml:"commit"`
	// NewGenerationAfter is how long no majority of voters may be reachable before
	// the others found a new generation; 0 for never.
	NewGenerationAfter time.Duration `yaml:"new_generation_after"`
}

// Default is a Config for replicas in one region, without a disk.
func Default() Config {
	return Config{
		Heartbeat: time.Second, Election: time.Second, Commit: 20 * time.Millisecond,
		NewGenerationAfter: time.Minute,
	}
}

// Validate returns all that is wrong with c, each error beginning with the path of
// the field.
func (c Config) Validate() error {
	var errs []error
	fail := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf("consensus."+path+": "+format, args...))
	}
	if c.Heartbeat < 20*time.Millisecond || c.Heartbeat > time.Minute {
		fail("heartbeat", "%v is not within 20ms and 1m", c.Heartbeat)
	}
	if c.Election < c.Heartbeat || c.Election > time.Minute {
		fail("election", "%v is not within heartbeat (%v) and 1m", c.Election, c.Heartbeat)
	}
	if c.Commit < time.Millisecond || c.Commit > c.Heartbeat {
		fail("commit", "%v is not within 1ms and heartbeat (%v)", c.Commit, c.Heartbeat)
	}
	if c.NewGenerationAfter != 0 && c.NewGenerationAfter < 10*c.Heartbeat {
		fail("new_generation_after", "%v must be 0 (never) or at least ten times heartbeat (%v)", c.NewGenerationAfter, c.Heartbeat)
	}
	return errors.Join(errs...)
}
