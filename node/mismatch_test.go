package node

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/sim/simnet"
)

// One of four routers, whoever it is, has another content under the number of the agreed epoch. It is reported, and all have
// the agreed one soon after.
func TestAnotherContentUnderTheSameNumber(t *testing.T) {
	for _, who := range []string{"leader", "voter", "subscriber"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				routers := startCluster(t, 4)
				await(t, "a cluster of three voters and a subscriber", func() bool {
					return agreed(routers) && withRole(routers, "leader").Node != nil && withRole(routers, "subscriber").Node != nil
				})
				victim, right := withRole(routers, who), routers[0].Epoch().Digest()
				image := victim.Epoch().Image()
				image.Backends[0].Weight = 7
				wrong, err := image.Epoch()
				if err != nil {
					t.Fatal(err)
				}
				theirs := victim.replica.version()
				victim.replica.epochs.offer(wrong)
				if agreed(routers) {
					t.Fatal("nothing is planted")
				}
				for range 5 { // as each frame of the other routers does
					victim.replica.compare("some", theirs)
				}
				await(t, "a report and a repair", func() bool { return agreed(routers) && victim.replica.mismatches.Load() > 0 })
				time.Sleep(5 * time.Second)
				if !agreed(routers) || routers[0].Epoch().Digest() != right {
					t.Errorf("the wrong content has won: %v", routers[0].Epoch().Backends())
				}
				if n := strings.Count(victim.said.String(), "two epochs of one number"); n == 0 || n > 4 { // others may have the wrong one for a moment
					t.Errorf("it is %d times in the log", n)
				}
				if n := victim.replica.state().Mismatches; n == 0 {
					t.Error("no metric")
				}
			})
		})
	}
}

// bubbleRouter is a router on a simulated host.
type bubbleRouter struct {
	*Node
	said *logBuffer
}

// startCluster runs routers on simulated hosts until the test ends.
func startCluster(t *testing.T, n int) []bubbleRouter {
	t.Helper()
	network := simnet.New(simnet.Default())
	var routers []bubbleRouter
	for i := range n {
		host := network.Host(fmt.Sprintf("router-%d", i))
		cfg := testConfig("http://" + net.JoinHostPort(network.Host("gpu").IP().String(), "80"))
		cfg.Endpoints[0].Variants = []fleet.Variant{{ // without a hot table, no epoch comes by itself
			Name: "main", Weight: 1, Routing: RoutingConfig{Strategy: routing.PrefixAware, PrefixLength: 1024},
		}}
		cfg.Router.Name = host.Name()
		cfg.Peer.Listen, cfg.Peer.Insecure = net.JoinHostPort(host.IP().String(), "7400"), true
		cfg.Cluster.Expect, cfg.Cluster.Join = 3, []string{"router-0:7400"}
		r := bubbleRouter{said: new(logBuffer)}
		var err error
		if r.Node, err = New(cfg, worldOf(host), Options{LogOutput: r.said}); err != nil {
			t.Fatal(err)
		}
		routers = append(routers, r)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, n)
	for _, r := range routers {
		go func() { done <- r.Run(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range n {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for _, h := range network.Hosts() {
			h.Kill() // what was accepted and never closed
		}
		time.Sleep(15 * time.Second) // what libraries leave behind for a moment
	})
	for _, r := range routers {
		<-r.Listening()
	}
	return routers
}

// await waits for something that happens within a moment of virtual time.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// agreed says whether all have one epoch.
func agreed(routers []bubbleRouter) bool {
	for _, r := range routers {
		if e := r.Epoch(); e.Number() == 0 || e.ID() != routers[0].Epoch().ID() || e.Digest() != routers[0].Epoch().Digest() {
			return false
		}
	}
	return true
}

// withRole is a router that has this role; its Node is nil if none has.
func withRole(routers []bubbleRouter, role string) bubbleRouter {
	for _, r := range routers {
		if r.Cluster().Role == role {
			return r
		}
	}
	return bubbleRouter{}
}
