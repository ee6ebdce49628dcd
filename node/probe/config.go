package probe

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a backend is asked.
type Kind string

// The kinds of probes.
const (
	Auto   Kind = "auto"   // the first of the following that the backend knows
	Health Kind = "health" // GET /health, as vLLM has it
	Ping   Kind = "ping"   // GET /ping, as SageMaker's containers have it
	Models Kind = "models" // GET /v1/models, as OpenAI's API has it
	Never  Kind = "none"   // nothing: it is always ready
)

// Config is how backends are probed.
type Config struct {
	Kind     Kind          `yaml:"kind" about:"what backends are asked: health, ping, models (/v1/models), auto (the first known) or none (always ready)"`
	Interval time.Duration `yaml:"interval" about:"time between two probes of a ready backend, at least 250ms; one that is not is probed up to every 250ms"`
	Timeout  time.Duration `yaml:"timeout" about:"longest wait for the answer to a probe, above 0"`
	Stall    time.Duration `yaml:"stall" about:"how long an engine with work may make no token before it counts as dead; 0: for ever"`
}

// Default is a Config for any kind of server.
func Default() Config {
	return Config{Kind: Auto, Interval: 2 * time.Second, Timeout: 2 * time.Second, Stall: 20 * time.Second}
}

// Validate returns all that is wrong with c, each error beginning with the path of the field.
func (c Config) Validate() error {
	var errs []error
	switch c.Kind {
	case Auto, Health, Ping, Models, Never:
	default:
		errs = append(errs, fmt.Errorf("health.kind: %q must be auto, health, ping, models or none", c.Kind))
	}
	if c.Interval < shortest {
		errs = append(errs, fmt.Errorf("health.interval: %s must be at least %s", c.Interval, shortest))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("health.timeout: %s is not positive", c.Timeout))
	}
	if c.Stall < 0 {
		errs = append(errs, fmt.Errorf("health.stall: %s is negative", c.Stall))
	}
	return errors.Join(errs...)
}
