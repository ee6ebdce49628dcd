package gossip

import (
	"errors"
	"fmt"
	"time"
)

// Config is how routers gossip. All routers of a cluster should have the same.
type Config struct {
	// KeyFile holds the keys that gossip is encrypted with: base64, one a line, of 16, 24 or 32 bytes. The first one
	// encrypts, all of them decrypt. It is read again when it changes. Empty: not encrypted.
	KeyFile       string        `yaml:"key_file"`
	Interval      time.Duration `yaml:"interval"`       // between rounds of gossip
	Nodes         int           `yaml:"nodes"`          // routers that are told in a round
	ProbeInterval time.Duration `yaml:"probe_interval"` // between probes of other routers
	ProbeTimeout  time.Duration `yaml:"probe_timeout"`  // for the answer to a probe
	// Suspicion is how many probe intervals a silent router may take to answer for itself before it counts as gone,
	// times the decimal logarithm of the number of routers.
	Suspicion int           `yaml:"suspicion"`
	Rejoin    time.Duration `yaml:"rejoin"` // between attempts to reach addresses that are not members
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
