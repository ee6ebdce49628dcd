package plan

import (
	"errors"
	"fmt"
	"time"
)

// Config is how fast the fleet may change.
type Config struct {
	DrainLimit time.Duration `yaml:"drain_limit" about:"how long a draining backend may finish its requests, above 0"`
	EpochGap   time.Duration `yaml:"epoch_gap" about:"least time between two epochs, above 0 to 1m"`
	MaxShrink  float64       `yaml:"max_shrink" about:"largest share of an endpoint's active backends to take out at once, above 0 to 1; one may always go"`
}

// Default is a Config for model servers that stream answers for minutes.
func Default() Config {
	return Config{DrainLimit: 10 * time.Minute, EpochGap: 500 * time.Millisecond, MaxShrink: 0.2}
}

// Validate returns all that is wrong with c, each error beginning with the path of the field.
func (c Config) Validate() error {
	var errs []error
	if c.DrainLimit <= 0 {
		errs = append(errs, fmt.Errorf("fleet.drain_limit: %s is not positive", c.DrainLimit))
	}
	if c.EpochGap <= 0 || c.EpochGap > time.Minute {
		errs = append(errs, fmt.Errorf("fleet.epoch_gap: %s must be above 0 and at most 1m", c.EpochGap))
	}
	if !(c.MaxShrink > 0 && c.MaxShrink <= 1) {
		errs = append(errs, fmt.Errorf("fleet.max_shrink: %v must be above 0 and at most 1", c.MaxShrink))
	}
	return errors.Join(errs...)
}
