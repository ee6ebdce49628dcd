package conformance

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// Names of endpoints, which are those of their models too. All but demo have
// one server, which is ill.
const (
	demo    = "demo"
	dying   = "dying"   // resets the connection after dyingEvents events
	busy    = "busy"    // answers 429 with Retry-After
	failing = "failing" // answers 500
)

const (
	dyingEvents = 3
	busySeconds = "7"
)

// headerBackend names the backend that answered: by its address, as backends
// are given no other id here.
const headerBackend = "X-Warmring-Backend"

// limit bounds every wait of a test; it is reached only by a failure.
const limit = 20 * time.Second

// cluster is a router in front of model servers, all in this process and on
// real sockets.
type cluster struct {
	url     string                         // of the router, without a path
	servers map[string]*modelserver.Server // by address
}

// start runs three healthy servers and one for each kind of illness, and a
// router. They stop with the test.
func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{servers: map[string]*modelserver.Server{}}
	var backends []node.BackendConfig
	for range 3 {
		backends = append(backends, c.serve(t, demo, modelserver.Fault{}))
	}
	c.url = route(t, append(backends,
		c.serve(t, dying, modelserver.Fault{Kind: modelserver.Die, After: dyingEvents}),
		c.serve(t, busy, modelserver.Fault{Kind: modelserver.Status, Status: http.StatusTooManyRequests, RetryAfter: 7}),
		c.serve(t, failing, modelserver.Fault{Kind: modelserver.Status, Status: http.StatusInternalServerError}),
	))
	return c
}

// serve runs one model server, ten times as fast as a real one.
func (c *cluster) serve(t *testing.T, model string, fault modelserver.Fault) node.BackendConfig {
	t.Helper()
	cfg := modelserver.Default()
	cfg.Model, cfg.Fault, cfg.Speed = model, fault, 10
	s := mstest.Start(t, cfg)
	c.servers[s.Addr] = s.Server
	return node.BackendConfig{URL: s.URL, Endpoint: model, Weight: 1}
}

// openai returns the base URL of one endpoint for an OpenAI client.
func (c *cluster) openai(endpoint string) string {
	return c.url + "/endpoints/" + endpoint + "/openai/v1"
}

// eventually fails the test unless ok holds before the limit.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
}

// within returns a context that ends at the limit.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
