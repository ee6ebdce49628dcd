package admin

import (
	"errors"
	"fmt"
	"net"

	"github.com/warmring/warmring/api"
)

// Config is the admin listener.
type Config struct {
	Listen string `yaml:"listen"` // host:port
	// TokenFile holds the bearer token that every route but the dashboard's page asks
	// for.
	// Empty: none is asked for.
	TokenFile string `yaml:"token_file"`
	// Insecure allows to listen beyond the loopback interface without a token.
	Insecure bool `yaml:"insecure"`
	Pprof    bool `yaml:"pprof"` // serve /debug/pprof
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
