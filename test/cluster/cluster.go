// Package cluster starts real routers on loopback, in the process of a test,
// on ports that the kernel chooses.
package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/node/probe"
)

// Router is a node that serves.
type Router struct {
	*node.Node
	URL   string // of the data plane
	Admin string // URL of the admin listener
	stop  func()
}

// Config is a node's configuration that suits a test.
func Config(backends ...node.BackendConfig) node.Config {
	cfg := node.Default()
	cfg.API.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shutdown.Grace = 2 * time.Second
	cfg.Health.Kind = probe.Never // backends of tests count their requests
	cfg.Backends = backends
	return cfg
}

// Start runs a router until the test ends or Stop is called.
func Start(t testing.TB, cfg node.Config) *Router {
	t.Helper()
	n, err := node.New(cfg, node.Machine(), node.Options{Version: "test", LogOutput: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	select {
	case <-n.Serving():
	case err := <-done:
		cancel()
		t.Fatalf("router ended: %v", err)
	}
	r := &Router{Node: n, URL: "http://" + n.APIAddr(), Admin: "http://" + n.AdminAddr()}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("router: %v", err)
		}
	})
	t.Cleanup(r.Stop)
	return r
}

// Stop ends the router in order and waits for it; a second Stop does nothing.
func (r *Router) Stop() { r.stop() }
