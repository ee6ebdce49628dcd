package consensus

import (
	"errors"
	"fmt"
	"time"
)

// Config is the consensus section of the configuration.
type Config struct {
	DataDir   string        `yaml:"data_dir" about:"directory for identity, log and snapshots; empty: in memory, and each start is a new server"`
	Heartbeat time.Duration `yaml:"heartbeat" about:"silence of the leader before an election, 20ms to 1m"`
	Election  time.Duration `yaml:"election" about:"how long one election may take, before jitter, consensus.heartbeat to 1m"`
	// Commit bounds the skew with which voters see an epoch.
	Commit             time.Duration `yaml:"commit" about:"how long the leader may keep a commit to itself, 1ms to consensus.heartbeat"`
	NewGenerationAfter time.Duration `yaml:"new_generation_after" about:"time without a majority before the others found a new generation, 10 heartbeats or more; 0: never"`
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
