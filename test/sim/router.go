package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/sim/simnet"
)

// What routers and model servers in a scenario agree on.
const (
	model     = "demo"
	apiPort   = "8080"
	adminPort = "9080"
	peerPort  = "7400"
)

// Router is a node on a host of its own.
type Router struct {
	*Process
	w      *World
	node   atomic.Pointer[node.Node]
	starts atomic.Int64
	desk   http.Client // of who asks the admin listener
}

// WorldOf is all that a node on a host may know.
func WorldOf(h *simnet.Host) node.World {
	return node.World{
		Listen: h.Listen, Dial: h.Dial, Packets: h.Packets, Lookup: h.Lookup, LookupSRV: h.LookupSRV,
		Now: h.Now, Random: h.Random(),
	}
}

// Router starts one router, named n00 and so on, in front of model servers.
func (w *World) Router(models []*Model, tweak ...func(*node.Config)) *Router {
	return w.router(w.freeNames("n", 1)[0], models, tweak)
}

func (w *World) router(name string, models []*Model, tweaks []func(*node.Config)) *Router {
	transport := &http.Transport{DialContext: w.Host("operator").Dial}
	w.AtEnd(transport.CloseIdleConnections)
	r := &Router{w: w, desk: http.Client{Transport: transport, Timeout: 20 * time.Second}} // longer than a router takes to refuse
	r.Process = w.Start(name, func(h *simnet.Host, log io.Writer) (func(context.Context) error, error) {
		cfg := config(h, models)
		if w.Seed%5 != 1 { // raft's idle traffic is a quarter of what a scenario costs; some seeds have all of it
			cfg.Consensus.Commit = 100 * time.Millisecond
		}
		for _, t := range tweaks {
			t(&cfg)
		}
		n, err := node.New(cfg, WorldOf(h), node.Options{Version: "sim", LogOutput: log})
		if err != nil {
			return nil, err
		}
		r.node.Store(n)
		r.starts.Add(1)
		return n.Run, nil
	})
	w.mu.Lock()
	w.idle = append(w.idle, counter{name: name + "'s requests in flight", read: r.inFlight, slow: true})
	w.mu.Unlock()
	return r
}

// config suits a scenario: at the host's address, without keys, with model servers as its fleet.
func config(h *simnet.Host, models []*Model) node.Config {
	at := func(port string) string { return net.JoinHostPort(h.IP().String(), port) }
	cfg := node.Default()
	cfg.Router.Name = h.Name()
	cfg.API.Listen, cfg.API.Insecure = at(apiPort), true
	cfg.Admin.Listen, cfg.Admin.Insecure = at(adminPort), true
	cfg.Shutdown.Grace = 5 * time.Second
	cfg.Endpoints = []node.EndpointConfig{{Name: model}}
	for _, m := range models {
		cfg.Backends = append(cfg.Backends, node.BackendConfig{ID: m.Name, URL: m.URL(), Endpoint: model, Weight: 1})
	}
	return cfg
}

// URL is the data plane's, by the host's name.
func (r *Router) URL() string { return "http://" + r.Name + ":" + apiPort }

// Node is the one that was started last.
func (r *Router) Node() *node.Node { return r.node.Load() }

// Ready says whether the router runs and takes requests.
func (r *Router) Ready() bool {
	n := r.Node()
	return n != nil && r.Running() && n.Ready() == nil
}

// Get reads an admin route such as "status" over the network, from a host called operator. It takes virtual time, so it
// is not for rules.
func (r *Router) Get(route string, v any) error { return r.Call(http.MethodGet, route, "", v) }

// Call sends an admin request and reads its answer into v, unless v is nil.
func (r *Router) Call(method, route, body string, v any) error {
	url := "http://" + r.Name + ":" + adminPort + "/admin/v1/" + route
	ctx := context.WithoutCancel(r.w.ctx) // the last requests come after the scenario
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.desk.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or nobody cares
	if resp.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return errors.Join(fmt.Errorf("%s %s: status %d: %s", method, route, resp.StatusCode, text), err)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// inFlight is how many requests the router has or keeps waiting, by its own account; 0 if it does not run.
func (r *Router) inFlight() int {
	if !r.Running() {
		return 0
	}
	var s admin.Status
	if err := r.Get("status", &s); err != nil {
		r.w.Errorf("%s does not answer: %v", r.Name, err)
	}
	return s.InFlight + s.Queued
}
