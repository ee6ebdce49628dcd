package conformance

import (
	"context"
	"testing"

	"github.com/warmring/warmring/node"
)

// route runs a router in front of backends, with one endpoint for each name
// that these have, and returns its URL. It stops before the backends do.
func route(t *testing.T, backends []node.BackendConfig) string {
	t.Helper()
	cfg := node.Default()
	cfg.API.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Telemetry.Log.Level = "warn"
	cfg.Backends = backends
	known := map[string]bool{}
	for _, b := range backends {
		if !known[b.Endpoint] {
			known[b.Endpoint] = true
			cfg.Endpoints = append(cfg.Endpoints, node.EndpointConfig{Name: b.Endpoint})
		}
	}
	n, err := node.New(cfg, node.Machine(), node.Options{LogOutput: t.Output(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("router: %v", err)
		}
	})
	select {
	case <-n.Listening():
	case err := <-done:
		done <- err
		t.Fatal("the router did not start")
	}
	return "http://" + n.APIAddr()
}
