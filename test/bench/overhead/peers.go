package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of the targets, in the order of the tables.
const (
	direct       = "direct"
	haproxy      = "haproxy"
	nginx        = "nginx"
	warmring     = "warmring"
	warmringAuto = "warmring-auto"
)

func allTargets() []string {
	return []string{direct, haproxy, nginx, warmring, warmringAuto}
}

// errNotInstalled means that the program to compare with is not on this machine.
var errNotInstalled = errors.New("not installed")

const howToInstall = "Debian: apt-get install haproxy nginx-light"

// stable starts proxies in front of one set of backends.
type stable struct {
	dir      string // for configuration and logs; temporary
	binary   string // warmring, as built
	backends []string
	probe    script
}

// start brings a target up and waits until it answers.
func (s *stable) start(ctx context.Context, name string) (*target, error) {
	if name == direct {
		return &target{name: direct, addrs: s.backends}, nil
	}
	var last error
	for range startTries {
		t, err := s.launch(ctx, name)
		if err != nil {
			return nil, err
		}
		if last = t.await(ctx, s.probe); last == nil {
			return t, nil
		}
		t.stop()
	}
	return nil, last
}

func (s *stable) launch(ctx context.Context, name string) (*target, error) {
	free, err := freeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, name+".conf")
	var text string
	var argv []string
	switch name {
	case haproxy:
		text, argv = s.haproxyConfig(free[0]), []string{"haproxy", "-db", "-f", file}
	case nginx:
		text, argv = s.nginxConfig(free[0]), []string{"nginx", "-p", s.dir, "-e", filepath.Join(s.dir, "nginx.err"), "-c", file}
	case warmring:
		text, argv = s.warmringConfig(free[0], free[1], "1024"), []string{s.binary, "serve", "--config", file}
	case warmringAuto:
		text, argv = s.warmringConfig(free[0], free[1], "auto"), []string{s.binary, "serve", "--config", file}
	default:
		return nil, fmt.Errorf("unknown target %q", name)
	}
	if argv[0], err = locate(argv[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", name, errNotInstalled)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c, err := startChild(ctx, s.dir, name, argv...)
	if err != nil {
		return nil, err
	}
	return &target{name: name, addrs: free[:1], child: c}, nil
}

// haproxyConfig uses http-no-delay, without which haproxy holds back the events of a stream.
func (s *stable) haproxyConfig(listen string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `global
  nbthread 2
  maxconn 8192
defaults
  mode http
  option http-keep-alive
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 60s
frontend in
  bind %s
  default_backend servers
backend servers
  balance hdr(%s)
  hash-type consistent
  hash-balance-factor 125
`, listen, keyField)
	for i, addr := range s.backends {
		fmt.Fprintf(&b, "  server b%d %s\n", i, addr)
	}
	return b.String()
}

// nginxConfig holds a whole request in memory before it is sent on, nginx's default, and lifts
// the limits on requests per connection that would close connections in mid-run.
func (s *stable) nginxConfig(listen string) string {
	var b strings.Builder
	if os.Getuid() == 0 {
		b.WriteString("user root;\n") // the workers must read the temporary directory
	}
	fmt.Fprintf(&b, `worker_processes 2;
daemon off;
pid %[1]s/nginx.pid;
worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_body_buffer_size 256k;
  client_max_body_size 8m;
  keepalive_requests 1000000000;
  keepalive_timeout 60s;
  tcp_nodelay on;
  upstream servers {
    hash $http_%[2]s consistent;
`, s.dir, strings.ReplaceAll(keyField, "-", "_"))
	for _, addr := range s.backends {
		fmt.Fprintf(&b, "    server %s;\n", addr)
	}
	fmt.Fprintf(&b, `    keepalive 256;
    keepalive_requests 1000000000;
  }
  server {
    listen %s;
    location / {
      proxy_pass http://servers;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering on;
    }
  }
}
`, listen)
	return b.String()
}

func (s *stable) warmringConfig(listen, admin, prefixLength string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `api: {listen: %q}
admin: {listen: %q}
shutdown: {grace: 1s}
endpoints:
  - name: bench
    variants:
      - {name: main, routing: {strategy: PREFIX_AWARE, prefix_length: %s, concurrency_threshold: 1024}}
backends:
`, listen, admin, prefixLength)
	for i, addr := range s.backends {
		fmt.Fprintf(&b, "  - {id: b%d, url: \"http://%s\", endpoint: bench}\n", i, addr)
	}
	return b.String()
}

// build compiles warmring from the sources beside us, so that no stale binary is measured.
func build(ctx context.Context, binary string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/warmring").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build ./cmd/warmring (from the root of the repository): %w\n%s", err, out)
	}
	return nil
}
