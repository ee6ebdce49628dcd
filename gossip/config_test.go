package gossip

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for path, spoil := range map[string]func(*Config){
		"gossip.interval":       func(c *Config) { c.Interval = time.Millisecond },
		"gossip.nodes":          func(c *Config) { c.Nodes = 0 },
		"gossip.probe_interval": func(c *Config) { c.ProbeInterval = time.Hour },
		"gossip.probe_timeout":  func(c *Config) { c.ProbeTimeout = 2 * c.ProbeInterval },
		"gossip.suspicion":      func(c *Config) { c.Suspicion = 1 },
		"gossip.rejoin":         func(c *Config) { c.Rejoin = 0 },
	} {
		cfg := Default()
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for want, deps := range map[string]Deps{
		"gossip: a name":  {Random: strings.NewReader(strings.Repeat("x", 64))},
		"gossip: a label": {Name: "r", Label: strings.Repeat("x", 256), Random: strings.NewReader(strings.Repeat("x", 64))},
		"gossip: EOF":     {Name: "r", Random: strings.NewReader("")},
	} {
		if _, err := New(Default(), deps); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	cfg := Default()
	cfg.KeyFile = "nowhere"
	deps := Deps{Name: "r", Random: strings.NewReader(strings.Repeat("x", 64))}
	if _, err := New(cfg, deps); err == nil || !strings.HasPrefix(err.Error(), "gossip.key_file: ") {
		t.Errorf("got %v", err)
	}
}
