package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
)

// peerHost is where the routers reach each other; what goes to or comes from there is counted.
const peerHost = "127.0.2.1"

const (
	settleLimit = 2 * time.Minute
	settlePoll  = 100 * time.Millisecond
)

var (
	errNotSettled = errors.New("the cluster does not settle")
	errEnded      = errors.New("the router has ended")
)

// router is where a router is.
type router struct {
	Name  string `json:"name"`
	API   string `json:"api"`   // host:port of each
	Admin string `json:"admin"` //
	Peer  string `json:"peer"`
}

// routerConfig is a router of a cluster of n. Its peers are at join; none: the others join it.
func routerConfig(name string, n int, backends []node.BackendConfig, join ...string) node.Config {
	cfg := node.Default()
	cfg.Router.Name = name
	cfg.API.Listen, cfg.Admin.Listen, cfg.Peer.Listen = "127.0.0.1:0", "127.0.0.1:0", peerHost+":0"
	cfg.Admin.Pprof = true
	cfg.Cluster.Name, cfg.Cluster.Join, cfg.Cluster.Expect = "bench", join, voters(n)
	cfg.Shutdown.Grace = 2 * time.Second
	// A fixed length and the bound relative to the mean load: what spills depends on the view alone.
	policy := node.RoutingConfig{Strategy: routing.PrefixAware, PrefixLength: routing.MinPrefixLength}
	cfg.Endpoints = []node.EndpointConfig{{Name: model, Variants: []node.VariantConfig{{Name: "main", Weight: 1, Routing: policy}}}}
	cfg.Backends = backends
	return cfg
}

// voters is how many of n routers decide.
func voters(n int) int {
	switch {
	case n >= 5:
		return 5
	case n >= 3:
		return 3
	default:
		return 1
	}
}

// settle waits until all routers are ready, know each other, hear each other's loads, have one epoch and so many voters.
func settle(ctx context.Context, c *client, routers []router, seats int) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var why error
	for {
		is := unsettled(ctx, c, routers, seats)
		if is == nil {
			return nil
		}
		if why == nil || ctx.Err() == nil { // or else it says that time is over
			why = is
		}
		if !sleep(ctx, settlePoll) {
			return fmt.Errorf("%w: %w", errNotSettled, why)
		}
	}
}

func unsettled(ctx context.Context, c *client, routers []router, seats int) error {
	epoch := ""
	for _, r := range routers {
		var s admin.Status
		var members []admin.Member
		if err := errors.Join(c.read(ctx, r, "status", &s), c.read(ctx, r, "members", &members)); err != nil {
			return err
		}
		heard, voting := 1, 0 // itself
		for _, m := range members {
			if m.ViewAge != nil {
				heard++
			}
			if m.Role == "leader" || m.Role == "voter" {
				voting++
			}
		}
		n := len(routers)
		switch {
		case !s.Ready:
			return fmt.Errorf("%s is not ready: %s", r.Name, s.NotReady)
		case len(members) != n, heard != n:
			return fmt.Errorf("%s knows %d routers and hears %d of %d", r.Name, len(members), heard, n)
		case n >= seats && voting != seats && seats > 1:
			return fmt.Errorf("%s knows %d voters of %d", r.Name, voting, seats)
		case s.Cluster == nil || s.Cluster.Leader == "" && s.Cluster.Role != "subscriber":
			return fmt.Errorf("%s knows no leader", r.Name)
		case epoch != "" && s.Epoch != epoch:
			return fmt.Errorf("%s has epoch %s, another %s", r.Name, s.Epoch, epoch)
		}
		epoch = s.Epoch
	}
	return nil
}

// leaderOf is the index of the router that leads.
func leaderOf(ctx context.Context, c *client, routers []router) (int, error) {
	for i, r := range routers {
		var s admin.Status
		if err := c.read(ctx, r, "status", &s); err != nil {
			return 0, err
		}
		if s.Cluster != nil && s.Cluster.Role == "leader" {
			return i, nil
		}
	}
	return 0, errors.New("no router leads")
}
