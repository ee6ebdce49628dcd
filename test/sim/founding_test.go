package sim

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
)

func TestFiveRoutersAtOnceAreOneCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		world func(*World)
		tweak func(*World) func(*node.Config)
		limit time.Duration
	}{
		"seeds in any order": {nil, shuffled, formLimit},
		"slow DNS":           {func(w *World) { w.Net.SetResolver(3*time.Second, nil) }, shuffled, formLimit + 3*time.Second},
		"no DNS at first": {func(w *World) {
			w.Net.SetResolver(0, errors.New("server misbehaving"))
			time.AfterFunc(5*time.Second, func() { w.Net.SetResolver(0, nil) })
		}, shuffled, formLimit + 5*time.Second},
		"a seed that nobody answers at": {func(w *World) { w.Net.SetName("gone", netip.MustParseAddr("10.9.9.9")) }, seed("gone"), formLimit},
		"a seed without an address":     {nil, seed("unheard"), formLimit},
		"one after the other": {func(w *World) {
			for i, name := range []string{"n00", "n01", "n02", "n03", "n04"} {
				w.Host(name).Pause(time.Duration(i)*time.Second + time.Duration(w.Rand.IntN(1000))*time.Millisecond)
			}
		}, shuffled, formLimit + 5*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, Options{Seeds: 2}, func(w *World) {
				if tt.world != nil {
					tt.world(w)
				}
				c := w.Cluster(5, w.Models(1), tt.tweak(w))
				neverTwo(w, c)
				settles(w, "one cluster", tt.limit, c)
			})
		})
	}
}

// seed adds a seed of that name, first.
func seed(name string) func(*World) func(*node.Config) {
	return func(*World) func(*node.Config) {
		return func(cfg *node.Config) {
			cfg.Cluster.Join = append([]string{name + ":" + peerPort}, cfg.Cluster.Join...)
		}
	}
}

// Six routers of which any three may found a cluster, in a network that falls apart in ever new ways while they try.
func TestOverlappingGroupsFoundOneCluster(t *testing.T) {
	Run(t, Options{Seeds: 3}, func(w *World) {
		plan := RandomPlan(w.Rand, []string{"n00", "n01", "n02", "n03", "n04", "n05"}, time.Minute,
			Mix{Actions: []Action{Split, OneWay, Datagrams, Streams}, Every: time.Second, For: 2 * time.Second})
		healed := w.Do(plan)
		overlap := func(cfg *node.Config) {
			cfg.Cluster.Expect = 3
			cfg.Cluster.Join = cfg.Cluster.Join[:2] // n00 and n01, or whichever of n00 to n02 are others
		}
		c := w.Cluster(6, w.Models(1), overlap, shuffled(w))
		neverTwo(w, c)
		healed()
		settles(w, "one cluster after the last fault", healLimit, c)
	})
}

// Two groups that do not see each other but both see one router in the middle.
func TestARouterInTheMiddleFoundsWithOneGroupOnly(t *testing.T) {
	Run(t, Options{Seeds: 2}, func(w *World) {
		left, right := w.group([]string{"n00", "n01"}), w.group([]string{"n02", "n03"})
		cut := w.Net.Split(left, right)
		c := w.Cluster(5, w.Models(1), func(cfg *node.Config) {
			cfg.Cluster.Expect = 3
			cfg.Cluster.Join = []string{"n04:" + peerPort}
		})
		neverTwo(w, c)
		time.Sleep(30 * time.Second)
		cut.Heal()
		settles(w, "one cluster after the groups see each other", healLimit, c)
	})
}

// Routers that expect another number wait and say why, and found nothing.
func TestContradictoryExpectations(t *testing.T) {
	Run(t, Options{Seeds: 1}, func(w *World) {
		c := w.Cluster(5, w.Models(1), func(cfg *node.Config) {
			if cfg.Router.Name >= "n03" {
				cfg.Cluster.Expect = 3
			}
		})
		w.Always("no cluster", func() error {
			if len(c.States()) > 0 && c.States()[0].Number > 0 {
				return errors.New("there is an epoch")
			}
			return nil
		})
		time.Sleep(20 * time.Second)
		for _, r := range c.Routers {
			if err := r.Node().Ready(); err == nil || !strings.Contains(err.Error(), "make them equal") {
				w.Errorf("%s says %v", r.Name, err)
			}
		}
	})
}
