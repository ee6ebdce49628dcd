package port

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Config is the address at which other routers reach this one.
type Config struct {
	Listen    string `yaml:"listen" about:"host:port for other routers, TCP and UDP; port 0: a free one; beyond loopback only with TLS or peer.insecure"`
	Advertise string `yaml:"advertise" about:"IP or IP:port that other routers are told; empty: that of peer.listen, for 0.0.0.0 one of the machine's"`
	CertFile  string `yaml:"cert_file" about:"certificate of this router, PEM, read again when it changes"`
	KeyFile   string `yaml:"key_file" about:"private key of peer.cert_file, PEM, read again when it changes"`
	CAFile    string `yaml:"ca_file" about:"authorities that sign the certificates of routers, PEM, read again when they change"`
	Insecure  bool   `yaml:"insecure" about:"allow peer.listen beyond the loopback interface without TLS"`
}

// Default is a Config for the loopback interface.
func Default() Config { return Config{Listen: "127.0.0.1:0"} }

// Validate returns all that is wrong with c, each error beginning with the path of the field.
func (c Config) Validate() error {
	return errors.Join(c.validateListen(), c.validateAdvertise(), c.validateFiles())
}

func (c Config) validateListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("peer.listen: %q must be host:port, such as 10.0.0.5:7946", c.Listen)
	case !loopback(host) && !c.tls() && !c.Insecure:
		return fmt.Errorf("peer.listen: %q is reachable from other machines: set peer.cert_file, peer.key_file and peer.ca_file ('warmring certs' makes them), or peer.insecure to allow it without TLS", c.Listen)
	}
	return nil
}

func (c Config) validateAdvertise() error {
	if c.Advertise == "" {
		return nil
	}
	_, err := c.advertise(1)
	return err
}

func (c Config) validateFiles() error {
	if !c.tls() && (c.CertFile != "" || c.KeyFile != "" || c.CAFile != "") {
		return errors.New("peer.cert_file: peer.cert_file, peer.key_file and peer.ca_file must be set together")
	}
	return nil
}

func (c Config) tls() bool { return c.CertFile != "" && c.KeyFile != "" && c.CAFile != "" }

// advertise is the configured address; port is used if it names none.
func (c Config) advertise(port uint16) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(c.Advertise)
	if err != nil {
		ip, ipErr := netip.ParseAddr(c.Advertise)
		if ipErr != nil {
			return netip.AddrPort{}, fmt.Errorf("peer.advertise: %q must be an IP address, or IP:port", c.Advertise)
		}
		at = netip.AddrPortFrom(ip, port)
	}
	if at.Addr().IsUnspecified() || at.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("peer.advertise: %q is not an address that others can reach", c.Advertise)
	}
	return at, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
