package gossip

import (
	"errors"
	"fmt"
	"time"
)

// Config is how routers gossip. All routers of a cluster should have the same.
type Config struct {
	// KeyFile is read again when it changes.
	KeyFile       string        `yaml:"key_file" about:"file with base64 of 16, 24 or 32 bytes a line: the first encrypts, all decrypt; empty: no encryption"`
	Interval      time.Duration `yaml:"interval" about:"time between two rounds of gossip, 10ms to 10s"`
	Nodes         int           `yaml:"nodes" about:"routers that are told in a round of gossip, 1 to 16"`
	ProbeInterval time.Duration `yaml:"probe_interval" about:"time between two probes of other routers, 100ms to 1m"`
	ProbeTimeout  time.Duration `yaml:"probe_timeout" about:"longest wait for the answer to a probe, 10ms to gossip.probe_interval"`
	Suspicion     int           `yaml:"suspicion" about:"probe intervals until a silent router counts as gone, times log10 of their number, 2 to 32"`
	Rejoin        time.Duration `yaml:"rejoin" about:"time between attempts to reach addresses that are not members, 1s to 10m"`
}

// Default is a Config for one data centre: news are everywhere in about 0.3 s among 100 routers.
func Default() Config {
	return Config{
		Interval: 100 * time.Millisecond, Nodes: 4,
		ProbeInterval: time.Second, ProbeTimeout: 500 * time.Millisecond, Suspicion: 4,
		Rejoin: 15 * time.Second,
	}
}

// Validate returns all that is wrong with c, each error beginning with the path of the field.
func (c Config) Validate() error {
	return errors.Join(
		within("gossip.interval", c.Interval, 10*time.Millisecond, 10*time.Second),
		within("gossip.nodes", c.Nodes, 1, 16),
		within("gossip.probe_interval", c.ProbeInterval, 100*time.Millisecond, time.Minute),
		within("gossip.probe_timeout", c.ProbeTimeout, 10*time.Millisecond, c.ProbeInterval),
		within("gossip.suspicion", c.Suspicion, 2, 32),
		within("gossip.rejoin", c.Rejoin, time.Second, 10*time.Minute),
	)
}

func within[T int | time.Duration](path string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("%s: %v must be in %v..%v", path, v, low, high)
	}
	return nil
}
