package discovery

import (
	"errors"
	"fmt"
	"time"
)

// Config is where backends are found.
type Config struct {
	DNS      []DNSConfig   `yaml:"dns" about:"names to look up again and again, each of which stands for backends"`
	LeaseMax time.Duration `yaml:"lease_max" about:"longest time that a backend may register itself for, at least 1s"`
}

// DNSConfig is one name that is looked up again and again.
type DNSConfig struct {
	Name     string        `yaml:"name" about:"name to look up"`
	Port     int           `yaml:"port" about:"port of the backends, 1 to 65535; not with srv"`
	SRV      bool          `yaml:"srv" about:"ask for SRV records, which hold the ports, not for addresses"`
	Scheme   string        `yaml:"scheme" about:"http or https"`
	Endpoint string        `yaml:"endpoint" about:"endpoint of the backends; empty: the only one"`
	Variant  string        `yaml:"variant" about:"variant of the backends; empty: the endpoint's first"`
	Weight   float64       `yaml:"weight" about:"capacity of each backend, above 0 to 1000000"`
	Interval time.Duration `yaml:"interval" about:"time between two lookups, give or take a tenth, at least 100ms"`
}

const (
	minInterval = 100 * time.Millisecond
	minLease    = time.Second
)

// Default is a Config without DNS.
func Default() Config { return Config{LeaseMax: 10 * time.Minute} }

// Validate returns all that is wrong with c, each error beginning with the path of the field.
func (c Config) Validate() error {
	var errs []error
	if c.LeaseMax < minLease {
		errs = append(errs, fmt.Errorf("discovery.lease_max: %s must be at least %s", c.LeaseMax, minLease))
	}
	first := map[string]int{}
	for i, d := range c.DNS {
		path := fmt.Sprintf("discovery.dns[%d]", i)
		if other, taken := first[d.Name]; taken {
			errs = append(errs, fmt.Errorf("%s.name: %q is discovery.dns[%d] already", path, d.Name, other))
		} else {
			first[d.Name] = i
		}
		errs = append(errs, d.validate(path)...)
	}
	return errors.Join(errs...)
}

func (d DNSConfig) validate(path string) []error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s.%s: %s", path, field, fmt.Sprintf(format, args...)))
		}
	}
	check(d.Name != "", "name", "must not be empty")
	switch {
	case d.SRV:
		check(d.Port == 0, "port", "the SRV records hold the port: leave it out")
	default:
		check(d.Port > 0 && d.Port < 1<<16, "port", "%d must be 1 to 65535", d.Port)
	}
	check(d.Scheme == "http" || d.Scheme == "https", "scheme", "%q must be http or https", d.Scheme)
	check(d.Weight > 0 && d.Weight <= 1e6, "weight", "%v must be above 0, at most 1000000", d.Weight)
	check(d.Interval >= minInterval, "interval", "%s must be at least %s", d.Interval, minInterval)
	return errs
}

// SetDefaults makes d the beginning of an element of discovery.dns.
func (d *DNSConfig) SetDefaults() {
	*d = DNSConfig{Scheme: "http", Weight: 1, Interval: 5 * time.Second}
}
