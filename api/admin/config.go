package admin

import (
	"errors"
	"fmt"
	"net"

	"github.com/warmring/warmring/api"
)

// Config is the admin listener.
type Config struct {
	Listen    string `yaml:"listen" about:"host:port for admin API, dashboard and metrics; beyond loopback only with a token or admin.insecure"`
	TokenFile string `yaml:"token_file" about:"file with the bearer token that all but the dashboard's page asks for; empty: none is asked for"`
	Insecure  bool   `yaml:"insecure" about:"allow admin.listen beyond the loopback interface without a token"`
	Pprof     bool   `yaml:"pprof" about:"serve profiles of the process on /debug/pprof"`
}

// Default is a Config for the loopback interface.
func Default() Config { return Config{Listen: "127.0.0.1:9080"} }

// Validate returns all that is wrong with c, each error beginning with the
// path of the field.
func (c Config) Validate() error {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("admin.listen: %q must be host:port, such as 127.0.0.1:9080", c.Listen)
	case !api.Loopback(host) && c.TokenFile == "" && !c.Insecure:
		return errors.New("admin.listen: " + fmt.Sprintf("%q is reachable from other machines: set admin.token_file, or admin.insecure to allow it without a token", c.Listen))
	default:
		return nil
	}
}
