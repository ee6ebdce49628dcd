package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/api/strict"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/gossip"
	"github.com/warmring/warmring/node/discovery"
	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/node/port"
	"github.com/warmring/warmring/node/probe"
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
	Cluster   ClusterConfig    `yaml:"cluster"`
	Peer      port.Config      `yaml:"peer"`
	Gossip    gossip.Config    `yaml:"gossip"`
	Consensus consensus.Config `yaml:"consensus"`
	Fleet     plan.Config      `yaml:"fleet"`
	Health    probe.Config     `yaml:"health"`
	Discovery discovery.Config `yaml:"discovery"`
	Endpoints []EndpointConfig `yaml:"endpoints" about:"what clients name as their model; at least one, unless there is a cluster to join"`
	Backends  []BackendConfig  `yaml:"backends" about:"model servers; those of a cluster to join, of DNS and of leases need not be here"`
	Shutdown  ShutdownConfig   `yaml:"shutdown"`
}

// RouterConfig is who this router is.
type RouterConfig struct {
	Name string `yaml:"name" about:"name of this router in headers, logs and traces"`
	// SaltFile counts only in a cluster that this router founds. With a random secret homes are others when all routers
	// were down and their logs are gone.
	SaltFile string `yaml:"salt_file" about:"file with a secret of 16 bytes or more that a new cluster mixes prefix keys with; empty: a random one"`
}

// ClusterConfig is which other routers this one belongs to.
type ClusterConfig struct {
	Name string `yaml:"name" about:"name of the cluster, 1 to 64 bytes; routers of other clusters are kept out"`
	// Join may hold host names that stand for many routers each.
	Join   []string `yaml:"join" about:"host:port of other routers' peer ports, looked up again and again; empty: others join this one"`
	Expect int      `yaml:"expect" about:"routers that found the cluster together: 1, 3 or 5, the same for all; without effect once there is one"`
}

func (c ClusterConfig) validate() error {
	var errs []error
	if c.Name == "" || len(c.Name) > 64 {
		errs = append(errs, fmt.Errorf("cluster.name: %q must have 1 to 64 bytes", c.Name))
	}
	for i, address := range c.Join {
		host, number, err := net.SplitHostPort(address)
		if err != nil || host == "" || number == "" || number == "0" {
			errs = append(errs, fmt.Errorf("cluster.join[%d]: %q must be host:port, such as router-0:7400", i, address))
		}
	}
	if c.Expect != 1 && c.Expect != 3 && c.Expect != 5 {
		errs = append(errs, fmt.Errorf("cluster.expect: %d must be 1, 3 or 5: a majority of them has to agree", c.Expect))
	}
	return errors.Join(errs...)
}

// ShutdownConfig bounds the way out.
type ShutdownConfig struct {
	DrainDelay time.Duration `yaml:"drain_delay" about:"time between saying not ready and refusing connections, for load balancers to see it; 0: none"`
	Grace      time.Duration `yaml:"grace" about:"longest wait for running requests to end, above 0"`
}

// The fleet's parts, in the form of the file.
type (
	// EndpointConfig is what clients name as their model.
	EndpointConfig = fleet.Endpoint
	// VariantConfig is a part of an endpoint's backends.
	VariantConfig = fleet.Variant
	// RoutingConfig is how a variant's requests are spread.
	RoutingConfig = fleet.Routing
	// BackendConfig is one model server.
	BackendConfig = fleet.Backend
)

// Default is a Config that serves nothing yet: it has no endpoints and no backends.
func Default() Config {
	return Config{
		Router:    RouterConfig{Name: "warmring"},
		API:       api.Default(),
		Proxy:     proxy.Default(),
		Admin:     admin.Default(),
		Telemetry: telemetry.Default(),
		Cluster:   ClusterConfig{Name: "warmring", Expect: 1},
		Peer:      port.Default(),
		Gossip:    gossip.Default(),
		Consensus: consensus.Default(),
		Fleet:     plan.Default(),
		Health:    probe.Default(),
		Discovery: discovery.Default(),
		Shutdown:  ShutdownConfig{Grace: 30 * time.Second},
	}
}

// Load lays a YAML file (nil: none), then the environment, then flags (by path) over Default, and reports every field
// that cannot be read. It does not judge the values: Validate does.
func Load(file io.Reader, getenv func(string) string, flags map[string]string) (Config, error) {
	c := Default()
	var errs []error
	if file != nil {
		errs = append(errs, strict.YAML(file, &c))
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
	errs := []error{
		c.API.Validate(), c.Proxy.Validate(), c.Admin.Validate(), c.Telemetry.Validate(), c.Cluster.validate(), c.Peer.Validate(),
		c.Gossip.Validate(), c.Consensus.Validate(), c.Fleet.Validate(), c.Health.Validate(), c.Discovery.Validate(), c.validateKeys(),
	}
	if c.Router.Name == "" {
		errs = append(errs, errors.New("router.name: must not be empty"))
	}
	if c.Shutdown.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("shutdown.drain_delay: %s is negative", c.Shutdown.DrainDelay))
	}
	if c.Shutdown.Grace <= 0 {
		errs = append(errs, fmt.Errorf("shutdown.grace: %s is not positive", c.Shutdown.Grace))
	}
	if len(c.Endpoints) == 0 && len(c.Cluster.Join) == 0 {
		errs = append(errs, errors.New("endpoints: at least one is needed, or a cluster to join (cluster.join) that has some"))
	}
	return errors.Join(append(errs, c.wanted().Validate())...)
}

// validateKeys sees to it that packets are as safe as streams.
func (c Config) validateKeys() error {
	if c.Peer.CertFile != "" && c.Gossip.KeyFile == "" {
		return errors.New("gossip.key_file: must be set, since peer.cert_file is: certificates protect streams, the key protects packets")
	}
	return nil
}

func (c Config) wanted() fleet.Fleet {
	return fleet.Fleet{Endpoints: c.Endpoints, Backends: c.Backends}
}

// fleet is the configured fleet in the domain's terms, with the names that the file may leave out.
func (c Config) fleet() ([]routing.Endpoint, []routing.Backend) {
	return c.wanted().Routing(routing.Active)
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
