package api

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/routing"
)

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		want Bytes
	}{
		{"25MiB", 25 * MiB}, {"64 KiB", 64 * KiB}, {"1GiB", GiB}, {"0", 0}, {"1023", 1023}, {" 5 ", 5},
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(c.text)); err != nil || b != c.want {
			t.Errorf("%q is %d, %v", c.text, b, err)
		}
		var again Bytes
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%q reads back as %d, %v", b, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "5MB", "9223372036854775807GiB", "1 2"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "25MiB") {
			t.Errorf("%q is %d, %v", text, b, err)
		}
	}
}

func TestConfigYAML(t *testing.T) {
	c := Default()
	err := yaml.Unmarshal([]byte("listen: 127.0.0.1:1\nlimits: {body: 1MiB, buffered: 4096}\ntimeouts: {write: 5s}\nheaders: false\naccess_log: 0.5\n"), &c)
	if err != nil {
		t.Fatal(err)
	}
	if c.Limits.Body != MiB || c.Limits.Buffered != 4096 || c.Limits.ScanWindow != MiB || c.Timeouts.Write != 5*time.Second || c.Headers || c.AccessLog != 0.5 {
		t.Errorf("got %+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	text, err := yaml.Marshal(Default())
	if err != nil || !strings.Contains(string(text), "body: 25MiB") {
		t.Errorf("the default is written as %s, %v", text, err)
	}
}

// Every error at once, each with its path.
func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{Listen: "0.0.0.0:80", AccessLog: 2, TLS: TLS{CertFile: "x"}}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, path := range []string{
		"api.listen", "api.tls", "api.access_log", "api.limits.body", "api.limits.scan_window", "api.limits.header",
		"api.timeouts.header", "api.timeouts.body", "api.timeouts.write", "api.timeouts.idle",
	} {
		if !strings.Contains(err.Error(), path+": ") {
			t.Errorf("%s is missing in %v", path, err)
		}
	}
	for listen, ok := range map[string]bool{"localhost:1": true, "[::1]:1": true, "127.0.0.9:1": true, ":1": false, "10.0.0.1:1": false, "x": false} {
		c := Default()
		c.Listen = listen
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", listen, err)
		}
		c.Insecure = true
		if err := c.Validate(); (err == nil) != (listen != "x") {
			t.Errorf("%s, insecure: %v", listen, err)
		}
	}
}

func keysFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestKeys(t *testing.T) {
	file := keysFile(t, "# ours\n\nalice: sk-a # since May\nsk-b\n  bob:  sk:c\n")
	var seen string
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, recordAuth(&seen))), func(c *Config, _ *Deps) { c.KeysFile = file })
	for _, c := range []struct {
		path, name, value string
		status            int
	}{
		{"/v1/chat/completions", "Authorization", "Bearer sk-a", 200},
		{"/v1/chat/completions", "Authorization", "bearer  sk-b", 200},
		{"/v1/messages", "X-Api-Key", "sk:c", 200},
		{"/v1/chat/completions", "Authorization", "Bearer sk", 401},
		{"/v1/chat/completions", "Authorization", "Basic sk-a", 401},
		{"/v1/chat/completions", "Authorization", "Bearer alice", 401},
		{"/v1/chat/completions", "Authorization", "Bearer ", 401},
		{"/v1/chat/completions", "X-None", "", 401},
		{"/endpoints/llama/invocations", "Authorization", "Bearer sk-a", 200},
		{"/endpoints/llama/invocations", "Authorization", "AWS4-HMAC-SHA256 Credential=x", 403},
	} {
		seen = ""
		res := e.do(t, "POST", c.path, hello, c.name, c.value)
		if res.StatusCode != c.status {
			t.Errorf("%s %s: %s: %d %s", c.path, c.name, c.value, res.StatusCode, res.body)
		}
		if seen != "" {
			t.Errorf("our key went to the model server: %s", seen)
		}
		if c.status == 401 && (res.Header.Get("WWW-Authenticate") == "" || !strings.Contains(res.body, "invalid_api_key")) {
			t.Errorf("401 is %v %s", res.Header, res.body)
		}
	}
	for path, status := range map[string]int{"/v1/models": 401, "/healthz": 200, "/readyz": 200} {
		if res := e.do(t, "GET", path, ""); res.StatusCode != status {
			t.Errorf("%s without a key: %d", path, res.StatusCode)
		}
	}
}

// A backend's key takes the place of the client's, whichever way in the request came, and is read again when asked to.
func TestBackendKeys(t *testing.T) {
	clients, backends := keysFile(t, "sk-a"), keysFile(t, "other: sk-other\nllama: sk-llama\nsk-all # the rest\n")
	var seen string
	var keys *Keys
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, recordAuth(&seen))), func(c *Config, d *Deps) {
		c.KeysFile, c.BackendKeysFile = clients, backends
		var err error
		if keys, err = OpenKeys(*c); err != nil {
			t.Fatal(err)
		}
		d.Keys = keys
	})
	ask := func(want, path, name, value string) {
		t.Helper()
		seen = ""
		if res := e.do(t, "POST", path, hello, name, value); res.StatusCode != http.StatusOK || seen != want {
			t.Errorf("%s with %s: %s: %d, and the model server saw %q, want %q", path, name, value, res.StatusCode, seen, want)
		}
	}
	ask("Bearer sk-llama", "/v1/chat/completions", "Authorization", "Bearer sk-a")
	ask("Bearer sk-llama", "/v1/messages", "X-Api-Key", "sk-a")
	ask("Bearer sk-llama", "/endpoints/llama/invocations", "Authorization", "Bearer sk-a")
	if got := keys.Backend("a third"); got != "Bearer sk-all" {
		t.Errorf("another endpoint's backends get %q", got)
	}

	if err := os.WriteFile(backends, []byte("sk-new\nsk-new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Read(); err == nil || !strings.Contains(err.Error(), "api.backend_keys_file: line 2 of "+backends) || strings.Contains(err.Error(), "sk-") {
		t.Errorf("two keys for all: %v", err)
	}
	ask("Bearer sk-llama", "/v1/chat/completions", "Authorization", "Bearer sk-a") // as before
	for file, text := range map[string]string{backends: "sk-new", clients: "sk-b"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace, err := keys.Read()
	if err != nil {
		t.Fatal(err)
	}
	replace()
	ask("Bearer sk-new", "/v1/chat/completions", "Authorization", "Bearer sk-b")
	if res := e.do(t, "POST", "/v1/chat/completions", hello, "Authorization", "Bearer sk-a"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key that is no more: %d", res.StatusCode)
	}
}

// Without keys for clients, backends without a key of their own get what clients send.
func TestClientsOwnKeysPass(t *testing.T) {
	file := keysFile(t, "other: sk-other\n")
	var seen string
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, recordAuth(&seen))), func(c *Config, _ *Deps) { c.BackendKeysFile = file })
	if e.do(t, "POST", "/v1/chat/completions", hello, "Authorization", "Bearer mine"); seen != "Bearer mine" {
		t.Errorf("the model server saw %q", seen)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	for path, c := range map[string]Config{
		"api.keys_file": {KeysFile: filepath.Join(t.TempDir(), "none")},
		"has no key":    {KeysFile: keysFile(t, "# nothing\n")},
		"no header":     {BackendKeysFile: keysFile(t, "sk one\n")},
		"api.tls":       {TLS: TLS{CertFile: "none", KeyFile: "none"}},
	} {
		if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("want %s, got %v", path, err)
		}
	}
}

// HTTP/2 and HTTP/1.1 over TLS.
func TestTLS(t *testing.T) {
	donor := httptest.NewTLSServer(nil)
	defer donor.Close()
	cert := donor.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.TLS.CertFile = keysFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	cfg.TLS.KeyFile = keysFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	a, err := New(cfg, Deps{Epoch: func() *routing.Epoch { return routing.NewEpoch(1, 1) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := a.Server(a), make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for _, major := range []int{1, 2} {
		var p http.Protocols
		p.SetHTTP1(major == 1)
		p.SetHTTP2(major == 2)
		transport := donor.Client().Transport.(*http.Transport).Clone()
		transport.Protocols = &p
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || res.ProtoMajor != major {
			t.Errorf("got %d over %s", res.StatusCode, res.Proto)
		}
		transport.CloseIdleConnections()
	}
}
