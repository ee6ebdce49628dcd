package api

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Config is the data plane's listener and its limits.
type Config struct {
	Listen   string `yaml:"listen" about:"host:port for clients; beyond the loopback interface only with api.keys_file or api.insecure"`
	TLS      TLS    `yaml:"tls"`
	Insecure bool   `yaml:"insecure" about:"allow api.listen beyond the loopback interface without keys"`
	// KeysFile has lines like "name: key" or the key alone; a comment begins with
	// # at the start of the line or after a space.
	KeysFile string `yaml:"keys_file" about:"file with API keys, one a line, as KEY or NAME: KEY with a blank between them; empty: requests need none"`
	// BackendKeysFile has lines like those of KeysFile, whose names are endpoints.
	BackendKeysFile string `yaml:"backend_keys_file" about:"file with the keys that backends ask for, one a line, as KEY or ENDPOINT: KEY; empty: clients send them"`

	AllowOrigins []string `yaml:"allow_origins" about:"web pages whose scripts may read answers, such as https://chat.example.com; * for all, empty for none"`
	Limits       Limits   `yaml:"limits"`
	Timeouts     Timeouts `yaml:"timeouts"`
	Headers      bool     `yaml:"headers" about:"put X-Warmring-* headers on answers: which router chose which backend, and why"`
	AccessLog    float64  `yaml:"access_log" about:"share of requests that are logged, 0 (none) to 1 (all)"`
	ForwardOther bool     `yaml:"forward_other" about:"send routes that have no routing of their own, such as /tokenize, to a backend of the endpoint"`
}

// TLS names PEM files; both or none.
type TLS struct {
	CertFile string `yaml:"cert_file" about:"certificate that clients are shown, PEM, read again when it changes; empty: no TLS"`
	KeyFile  string `yaml:"key_file" about:"private key of api.tls.cert_file, PEM"`
}

// Limits bound what one request, or all of them, can hold.
type Limits struct {
	Body       Bytes `yaml:"body" about:"largest body of a request, 1 byte to 16GiB"`
	ScanWindow Bytes `yaml:"scan_window" about:"how much of a body is read before a backend is chosen, and can be sent again, 4KiB to 64MiB"`
	Buffered   Bytes `yaml:"buffered" about:"bound on what all requests hold beyond their scan windows until they name a model, 0 to 1024GiB"`
	Header     Bytes `yaml:"header" about:"largest head of a request, 1KiB to 16MiB"`
}

// Timeouts bound the waits for a client.
type Timeouts struct {
	Header time.Duration `yaml:"header" about:"longest wait for a request's head, above 0"`
	Body   time.Duration `yaml:"body" about:"longest wait between two pieces of a request's body, above 0"`
	Write  time.Duration `yaml:"write" about:"longest wait for a client to take one piece of an answer, above 0"`
	Idle   time.Duration `yaml:"idle" about:"longest wait for the next request on a connection, above 0"`
}

// Default is a Config for the loopback interface.
func Default() Config {
	return Config{
		Listen:   "127.0.0.1:8080",
		Limits:   Limits{Body: 25 * MiB, ScanWindow: MiB, Buffered: 256 * MiB, Header: 64 * KiB},
		Timeouts: Timeouts{Header: 10 * time.Second, Body: 30 * time.Second, Write: time.Minute, Idle: 2 * time.Minute},
		Headers:  true,
	}
}

// Validate returns all that is wrong with c, each error beginning with the
// path of the field.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("api."+field+": "+format, args...))
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		bad("listen", "%q must be host:port, such as 127.0.0.1:8080", c.Listen)
	case !Loopback(host) && c.KeysFile == "" && !c.Insecure:
		bad("listen", "%q is reachable from other machines: set api.keys_file, or api.insecure to allow it without keys", c.Listen)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls", "cert_file and key_file must be set together")
	}
	for i, origin := range c.AllowOrigins {
		if !isOrigin(origin) {
			bad(fmt.Sprintf("allow_origins[%d]", i), "must be * or an origin such as https://chat.example.com")
		}
	}
	for _, l := range []struct {
		field      string
		value      Bytes
		least, max Bytes
	}{
		{"limits.body", c.Limits.Body, 1, 16 * GiB},
		{"limits.scan_window", c.Limits.ScanWindow, 4 * KiB, 64 * MiB},
		{"limits.buffered", c.Limits.Buffered, 0, 1024 * GiB},
		{"limits.header", c.Limits.Header, KiB, 16 * MiB},
	} {
		if l.value < l.least || l.value > l.max {
			bad(l.field, "is %v, must be %v to %v", l.value, l.least, l.max)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"timeouts.header", c.Timeouts.Header},
		{"timeouts.body", c.Timeouts.Body},
		{"timeouts.write", c.Timeouts.Write},
		{"timeouts.idle", c.Timeouts.Idle},
	} {
		if d.value <= 0 {
			bad(d.field, "is %v, must be a positive duration such as 30s", d.value)
		}
	}
	if !(c.AccessLog >= 0 && c.AccessLog <= 1) { // also refuses NaN
		bad("access_log", "is %v, must be 0 to 1", c.AccessLog)
	}
	return errors.Join(errs...)
}

// Loopback reports whether a listener on host is out of other machines' reach.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
