package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node/telemetry"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// Config is everything that a router can be told, one section for each owner. Start from Default; Load lays a file, the
// environment and flags over it; Validate judges the result.
type Config struct {
	Router    RouterConfig     `yaml:"router"`
	API       api.Config       `yaml:"api"`
	Proxy     proxy.Config     `yaml:"proxy"`
	Admin     admin.Config     `yaml:"admin"`
	Telemetry telemetry.Config `yaml:"telemetry"`
	Endpoints []EndpointConfig `yaml:"endpoints"`
	Backends  []BackendConfig  `yaml:"backends"`
	Shutdown  ShutdownConfig   `yaml:"shutdown"`
}

// RouterConfig is who this router is.
type RouterConfig struct {
	Name string `yaml:"name"` // in headers, logs and traces
	// SaltFile holds the secret that prefix keys are mixed with, at least 16 bytes. Without it each start draws its own:
	// homes then move at a restart.
	SaltFile string `yaml:"salt_file"`
}

// ShutdownConfig bounds the way out.
type ShutdownConfig struct {
	DrainDelay time.Duration `yaml:"drain_delay"` // between "not ready" and refusing connections, for load balancers to see it
	Grace      time.Duration `yaml:"grace"`       // for requests that are running; also how long a removed backend may finish
}

// EndpointConfig is one endpoint: what clients name as their model.
type EndpointConfig struct {
	Name     string          `yaml:"name"`
	Aliases  []string        `yaml:"aliases,omitempty"`  // further names
	Adapters []string        `yaml:"adapters,omitempty"` // names of adapters (LoRA) that its backends have loaded
	Variants []VariantConfig `yaml:"variants,omitempty"` // none: one called main, PREFIX_AWARE with prefix_length auto
}

// VariantConfig is a part of an endpoint's backends with its own share of the traffic.
type VariantConfig struct {
	Name    string        `yaml:"name"`
	Weight  float64       `yaml:"weight"` // share of the endpoint's traffic, relative to the other variants
	Routing RoutingConfig `yaml:"routing"`
}

func (v *VariantConfig) setDefaults() { *v = defaultVariant() }

func defaultVariant() VariantConfig {
	return VariantConfig{Name: "main", Weight: 1, Routing: RoutingConfig{Strategy: routing.PrefixAware}}
}

// RoutingConfig is how a variant's requests are spread.
type RoutingConfig struct {
	Strategy             routing.Strategy `yaml:"strategy"`              // RANDOM, LEAST_OUTSTANDING_REQUESTS or PREFIX_AWARE
	PrefixLength         PrefixLength     `yaml:"prefix_length"`         // auto, or 1024..65536 characters
	ConcurrencyThreshold int              `yaml:"concurrency_threshold"` // 1..1024 requests in flight; 0: not set
}

// PrefixLength is a number of characters, or 0 for auto.
type PrefixLength int

// UnmarshalText reads "auto" or a number.
func (l *PrefixLength) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*l = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is not auto or a number of characters", text)
	}
	*l = PrefixLength(n)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (l PrefixLength) MarshalText() ([]byte, error) {
	if l == 0 {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(l), 10), nil
}

// BackendConfig is one model server.
type BackendConfig struct {
	ID          string  `yaml:"id"`           // empty: host:port of the URL
	URL         string  `yaml:"url"`          // http://host:port
	Endpoint    string  `yaml:"endpoint"`     // empty: the only one
	Variant     string  `yaml:"variant"`      // empty: the endpoint's first
	Weight      float64 `yaml:"weight"`       // capacity relative to the others
	MaxInflight int     `yaml:"max_inflight"` // requests of this router at once; 0: no limit
}

func (b *BackendConfig) setDefaults() { b.Weight = 1 }

// Default is a Config that serves nothing yet: it has no endpoints and no backends.
func Default() Config {
	return Config{
		Router:    RouterConfig{Name: "warmring"},
		API:       api.Default(),
		Proxy:     proxy.Default(),
		Admin:     admin.Default(),
		Telemetry: telemetry.Default(),
		Shutdown:  ShutdownConfig{Grace: 30 * time.Second},
	}
}

// Load lays a YAML file (nil: none), then the environment, then flags (by path) over Default, and reports every field
// that cannot be read. It does not judge the values: Validate does.
func Load(file io.Reader, getenv func(string) string, flags map[string]string) (Config, error) {
	c := Default()
	var errs []error
	if file != nil {
		errs = append(errs, decode(file, &c))
	}
	for _, leaf := range Leaves(&c) {
		if text := getenv(leaf.Env); text != "" {
			if err := leaf.Set(text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", leaf.Env, err))
			}
		}
		if text, ok := flags[leaf.Path]; ok {
			if err := leaf.Set(text); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", leaf.Path, err))
			}
		}
	}
	return c, errors.Join(errs...)
}

// Validate reports everything that is wrong, each with the path of its field; it changes nothing.
func (c Config) Validate() error {
	errs := []error{c.API.Validate(), c.Proxy.Validate(), c.Admin.Validate(), c.Telemetry.Validate()}
	if c.Router.Name == "" {
		errs = append(errs, errors.New("router.name: must not be empty"))
	}
	if c.Shutdown.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("shutdown.drain_delay: %s is negative", c.Shutdown.DrainDelay))
	}
	if c.Shutdown.Grace <= 0 {
		errs = append(errs, fmt.Errorf("shutdown.grace: %s is not positive", c.Shutdown.Grace))
	}
	if len(c.Endpoints) == 0 {
		errs = append(errs, errors.New("endpoints: at least one is needed"))
	}
	return errors.Join(append(errs, c.validateFleet()...)...)
}

// validateFleet applies the fleet to an empty epoch, so that the domain's rules are written down only once.
func (c Config) validateFleet() []error {
	var errs []error
	owner := map[string]int{}
	for i, b := range c.Backends {
		if first, taken := owner[b.URL]; taken {
			errs = append(errs, fmt.Errorf("backends[%d].url: %q is the address of backends[%d] too", i, b.URL, first))
		} else {
			owner[b.URL] = i
		}
	}
	endpoints, backends := c.fleet()
	_, err := routing.NewEpoch(1, 0).Apply(routing.Change{PutEndpoints: endpoints, PutBackends: backends})
	return append(errs, err)
}

// fleet is the configured fleet in the domain's terms, with the names that the file may leave out.
func (c Config) fleet() ([]routing.Endpoint, []routing.Backend) {
	endpoints := make([]routing.Endpoint, 0, len(c.Endpoints))
	first := map[string]string{}
	for _, e := range c.Endpoints {
		if len(e.Variants) == 0 {
			e.Variants = []VariantConfig{defaultVariant()}
		}
		first[e.Name] = e.Variants[0].Name
		variants := make([]routing.Variant, 0, len(e.Variants))
		for _, v := range e.Variants {
			variants = append(variants, routing.Variant{Name: v.Name, Weight: v.Weight, Policy: routing.Policy{
				Strategy: v.Routing.Strategy, PrefixLength: int(v.Routing.PrefixLength), ConcurrencyThreshold: v.Routing.ConcurrencyThreshold,
			}})
		}
		endpoints = append(endpoints, routing.Endpoint{Name: e.Name, Aliases: e.Aliases, Adapters: e.Adapters, Variants: variants})
	}
	backends := make([]routing.Backend, 0, len(c.Backends))
	for i, b := range c.Backends {
		if b.ID == "" {
			_, address, _ := strings.Cut(b.URL, "://")
			b.ID = cmp.Or(address, fmt.Sprintf("#%d", i)) // the latter only names it in the error about its URL
		}
		if b.Endpoint == "" && len(c.Endpoints) == 1 {
			b.Endpoint = c.Endpoints[0].Name
		}
		if b.Variant == "" {
			b.Variant = first[b.Endpoint]
		}
		backends = append(backends, routing.Backend{
			ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, Weight: b.Weight,
			MaxInflight: b.MaxInflight, State: routing.Active,
		})
	}
	return endpoints, backends
}

// Masked is c without what should not be shown: passwords in URLs. Keys, tokens and the salt are in files of their own.
func (c Config) Masked() Config {
	for _, endpoint := range []*string{&c.Telemetry.Traces.Endpoint, &c.Telemetry.Metrics.Endpoint} {
		if u, err := url.Parse(*endpoint); err == nil {
			*endpoint = u.Redacted()
		}
	}
	return c
}
