package conformance

import (
	"testing"

	"github.com/warmring/warmring/node"
	loopback "github.com/warmring/warmring/test/cluster"
)

// route runs a router in front of backends, with one endpoint for each name
// that these have, and returns its URL. It stops before the backends do.
func route(t *testing.T, backends []node.BackendConfig) string {
	t.Helper()
	cfg := loopback.Config(backends...)
	cfg.Telemetry.Log.Level = "warn"
	known := map[string]bool{}
	for _, b := range backends {
		if !known[b.Endpoint] {
			known[b.Endpoint] = true
			cfg.Endpoints = append(cfg.Endpoints, node.EndpointConfig{Name: b.Endpoint})
		}
	}
	return loopback.Start(t, cfg).URL
}
