package cluster

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// ready waits until a router says that it is, as a load balancer would.
func (g *ring) ready(r *router) {
	g.t.Helper()
	within(g.t, patience, r.cfg.Router.Name+" is ready", func() bool {
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, r.url()+"/readyz", nil)
		if err != nil {
			return false
		}
		resp, err := g.client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// All routers are restarted one after the other, each as soon as the one before is ready. No request fails; a router that is
// down refuses connections, and clients go to the next one.
func TestRollingRestart(t *testing.T) {
	for name, prepared := range map[string]func(*ring) *ring{
		"in memory": func(g *ring) *ring { return g },
		"on disk":   (*ring).onDisk,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := prepare(t, 3)
			for _, r := range g.routers {
				r.cfg.Shutdown.DrainDelay = time.Second // for clients with a connection to be told that it closes
			}
			prepared(g).start()
			before := g.settle(patience)
			g.commit(g.routers[0])
			l := g.load()
			l.flows(t, 20, g.routers...)
			for _, r := range g.routers {
				r.terminate(t)
				r.start(t)
				g.ready(r)
			}
			l.flows(t, 20, g.routers...)
			l.faultless(t)
			for _, r := range g.routers {
				g.agreed(r)
			}
			g.commit(g.routers[0])
			after := g.settle(patience)
			if after.Cluster.ID != before.Cluster.ID || after.Cluster.Generation != 1 {
				t.Errorf("cluster %s became generation %d of %s", before.Cluster.ID, after.Cluster.Generation, after.Cluster.ID)
			}
			g.voters()
		})
	}
}

// Row 11 of the scenarios: a voter loses its disk and comes back under its name and address. It is another server, so no
// committed epoch is lost, also when a voter that has them all dies right after.
func TestBlankVoter(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).onDisk().start()
	leader := g.leader()
	victim := g.without(leader)[0]
	g.commit(leader)
	victim.kill(t)
	g.commit(leader)
	victim.wipe(t)
	victim.start(t)
	g.settle(patience)
	g.agreed(victim)
	epoch := g.commit(victim)
	g.voters()
	g.leader().kill(t)
	for _, r := range g.routers {
		if s, err := g.status(r); err == nil {
			g.agreed(r)
			if s.Epoch != epoch {
				t.Errorf("%s is at epoch %s; %s was committed", r.cfg.Router.Name, s.Epoch, epoch)
			}
		}
	}
	g.commit(victim)
}

// All routers are killed at once. With disks the cluster goes on where it was; without it is another one, and serves.
func TestKillAll(t *testing.T) {
	t.Run("on disk", func(t *testing.T) {
		t.Parallel()
		g := prepare(t, 3).onDisk().start()
		g.commit(g.routers[1])
		before := g.settle(patience)
		g.killAll()
		for _, r := range g.routers {
			r.start(t)
		}
		after := g.settle(patience)
		if after.Cluster.ID != before.Cluster.ID || after.Cluster.Generation != before.Cluster.Generation || after.Epoch != before.Epoch || after.Digest != before.Digest {
			t.Errorf("epoch %s (%s) of cluster %s became epoch %s (%s) of %s", before.Epoch, before.Digest, before.Cluster.ID, after.Epoch, after.Digest, after.Cluster.ID)
		}
		g.commit(g.routers[0])
	})
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		g := prepare(t, 3).start()
		before := g.settle(patience)
		g.killAll()
		for _, r := range g.routers {
			r.start(t)
		}
		if after := g.settle(patience); after.Cluster.ID == before.Cluster.ID {
			t.Errorf("it is cluster %s again: who remembered?", after.Cluster.ID)
		}
		g.places(20, g.routers...)
		g.commit(g.routers[0])
	})
}

func (g *ring) killAll() {
	for _, r := range g.routers {
		r.kill(g.t)
	}
}

// Row 14 of the scenarios: all routers come back at other addresses, as pods do. Who is who lies on their disks, not in
// addresses.
func TestAllMove(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).onDisk().start()
	epoch := g.commit(g.routers[0])
	before := g.settle(patience)
	g.killAll()
	hosts, join := block(), []string(nil)
	for i, r := range g.routers {
		r.cfg.Peer.Listen = free(t, fmt.Sprint(hosts, i+1), 1)[0]
		join = append(join, r.cfg.Peer.Listen)
	}
	for _, r := range g.routers {
		r.cfg.Cluster.Join = join
		r.start(t)
	}
	after := g.settle(patience)
	if after.Cluster.ID != before.Cluster.ID || after.Epoch != epoch {
		t.Errorf("epoch %s of cluster %s became epoch %s of %s", epoch, before.Cluster.ID, after.Epoch, after.Cluster.ID)
	}
	g.commit(g.routers[2])
}

// One router after the other moves to another port. The addresses in cluster.join go stale meanwhile: it is enough that
// one of them answers, and only to who starts.
func TestEachMoves(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).onDisk().start()
	before := g.settle(patience)
	for _, r := range g.routers[1:] {
		r.kill(t)
		host := r.cfg.Peer.Listen
		r.cfg.Peer.Listen = free(t, host[:len(host)-len(":00000")], 1)[0] // every port that the kernel chooses has five digits
		r.start(t)
		g.settle(patience)
		g.commit(r)
	}
	if after := g.settle(patience); after.Cluster.ID != before.Cluster.ID {
		t.Errorf("cluster %s became %s", before.Cluster.ID, after.Cluster.ID)
	}
}
