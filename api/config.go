package api

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Config is the data plane's listener and its limits.
type Config struct {
	Listen string `yaml:"listen"` // host:port
	TLS    TLS    `yaml:"tls"`
	// Insecure allows to listen beyond the loopback interface without keys.
	Insecure bool `yaml:"insecure"`
	// KeysFile has one API key a line, "name: key" or the key alone; a comment
	// begins with # at the start of the line or after a space. Empty: every
	// request is accepted.
	KeysFile string   `yaml:"keys_file"`
	Limits   Limits   `yaml:"limits"`
	Timeouts Timeouts `yaml:"timeouts"`
	// Headers puts X-Warmring-* on answers: who chose which backend, and why.
	Headers bool `yaml:"headers"`
	// AccessLog is the fraction of requests that are logged, 0 to 1.
	AccessLog float64 `yaml:"access_log"`
	// ForwardOther sends routes that have no routing of their own, such as
	// /tokenize, to a backend of the endpoint.
	ForwardOther bool `yaml:"forward_other"`
}

// TLS names PEM files; both or none.
type TLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Limits bound what one request, or all of them, can hold.
type Limits struct {
	Body Bytes `yaml:"body"` // a request's body
	// ScanWindow is how much of a body is read before a backend is chosen, and
	// can be sent again to another backend.
	ScanWindow Bytes `yaml:"scan_window"`
	// Buffered bounds the sum, over all requests, of what is held beyond the
	// scan window, where `model` had not come yet.
	Buffered Bytes `yaml:"buffered"`
	Header   Bytes `yaml:"header"` // a request's head
}

// Timeouts bound the waits for a client.
type Timeouts struct {
	Header time.Duration `yaml:"header"` // for a request's head
	Body   time.Duration `yaml:"body"`   // between two pieces of a body
	Write  time.Duration `yaml:"write"`  // for the client to take one piece of an answer
	Idle   time.Duration `yaml:"idle"`   // for the next request on a connection
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
