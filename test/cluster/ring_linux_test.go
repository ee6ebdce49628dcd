package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// router is a `warmring serve` process, from one start to the next.
type router struct {
	*process
	cfg    node.Config
	env    []string
	inside []string // what runs the program elsewhere, such as ip netns exec
}

// url is that of the data plane.
func (r *router) url() string { return "http://" + r.cfg.API.Listen }

// desk is the URL of the admin listener.
func (r *router) desk() string { return "http://" + r.cfg.Admin.Listen }

// start runs the router with its configuration as it is now.
func (r *router) start(t *testing.T) {
	t.Helper()
	text, err := yaml.Marshal(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(r.inside), binary(t), "serve", "--config", "-")
	r.process = launch(t, r.cfg.Router.Name, string(text), r.env, argv...)
}

// wipe empties its data directory, as a new disk does.
func (r *router) wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(r.cfg.Consensus.DataDir); err != nil {
		t.Fatal(err)
	}
}

// ring is a cluster of routers as processes, in front of model servers in the process of the test.
type ring struct {
	t       *testing.T
	client  *http.Client
	routers []*router
	servers []*mstest.Running
	weight  atomic.Int64 // of gpu-0, as last written
}

// blocks counts the networks of loopback addresses that tests have taken.
var blocks atomic.Int32

// block is the beginning of 254 loopback addresses that are this test's own. A router keeps its address and port from one
// start to the next, and on an address of its own nobody takes the port in between.
func block() string {
	return fmt.Sprintf("127.%d.%d.", 100+blocks.Add(1)%100, os.Getpid()%254+1)
}

// free is n addresses of host with ports that the kernel chose. It holds all of them until it has the last, or it could be
// given one twice.
func free(t *testing.T, host string, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// settings is the configuration of a router at an address of its own, in front of the ring's model servers.
func (g *ring) settings(name, host string) node.Config {
	cfg := Config()
	for i, s := range g.servers {
		cfg.Backends = append(cfg.Backends, backendAt(fmt.Sprint("gpu-", i), s.URL))
	}
	cfg.Endpoints = []node.EndpointConfig{pinned()}
	cfg.Router.Name = name
	at := free(g.t, host, 3)
	cfg.API.Listen, cfg.Admin.Listen, cfg.Peer.Listen = at[0], at[1], at[2]
	cfg.Telemetry.Log.Format = "json"
	cfg.Cluster.Name, cfg.Cluster.Expect = g.t.Name(), 3
	return cfg
}

// prepare makes a ring of routers that are not started yet. Each joins all others.
func prepare(t *testing.T, n int) *ring {
	t.Helper()
	g := &ring{t: t, client: client(t)}
	g.servers, _ = servers(t, 4)
	hosts := block()
	var join []string
	for i := range n {
		cfg := g.settings(fmt.Sprint("router-", i), hosts+fmt.Sprint(i+1))
		join = append(join, cfg.Peer.Listen)
		g.routers = append(g.routers, &router{cfg: cfg})
	}
	for _, r := range g.routers {
		r.cfg.Cluster.Join = join
	}
	return g
}

// onDisk gives every router a data directory.
func (g *ring) onDisk() *ring {
	dir := g.t.TempDir()
	for _, r := range g.routers {
		r.cfg.Consensus.DataDir = filepath.Join(dir, r.cfg.Router.Name)
	}
	return g
}

// start starts all routers and returns when they agree.
func (g *ring) start() *ring {
	g.t.Helper()
	for _, r := range g.routers {
		r.start(g.t)
	}
	g.settle(patience)
	return g
}

// settle waits until the routers are one cluster with one epoch that can be changed, as each of them sees it.
func (g *ring) settle(d time.Duration, among ...*router) admin.Status {
	g.t.Helper()
	if len(among) == 0 {
		among = g.routers
	}
	var all []admin.Status
	settled := false
	defer func() {
		for _, r := range among {
			if !settled {
				_, text, err := g.call(r, http.MethodGet, "/admin/v1/status", "", nil)
				g.t.Logf("%s: %v %s", r.cfg.Router.Name, err, text)
			}
		}
	}()
	within(g.t, d, "one cluster, one epoch", func() bool {
		all = all[:0]
		for _, r := range among {
			s, err := g.status(r)
			if err != nil || !s.Ready || !s.Cluster.Quorum || s.Cluster.Members != len(among) {
				return false
			}
			all = append(all, s)
		}
		return !slices.ContainsFunc(all, func(s admin.Status) bool {
			return s.Epoch != all[0].Epoch || s.Digest != all[0].Digest || s.Cluster.ID != all[0].Cluster.ID || s.Cluster.Leader != all[0].Cluster.Leader
		})
	})
	settled = true
	return all[0]
}

// voters waits until the routers, and nobody who is gone, are the voters. It takes less than the minute after which a voter
// counts as dead that was not replaced at its address.
func (g *ring) voters() {
	g.t.Helper()
	var names []string
	for _, r := range g.routers {
		names = append(names, r.cfg.Router.Name)
	}
	within(g.t, 45*time.Second, fmt.Sprintf("the voters are %v", names), func() bool {
		return !slices.ContainsFunc(g.routers, func(r *router) bool {
			s, err := g.status(r)
			return err != nil || !slices.Equal(s.Cluster.Voters, names)
		})
	})
}

// leader is the router that leads, as a router that is up says.
func (g *ring) leader() *router {
	g.t.Helper()
	s := g.settle(patience)
	i := slices.IndexFunc(g.routers, func(r *router) bool { return r.cfg.Router.Name == s.Cluster.Leader })
	if i < 0 {
		g.t.Fatalf("the leader is %q", s.Cluster.Leader)
	}
	return g.routers[i]
}

// without are all routers but one.
func (g *ring) without(gone *router) []*router {
	return slices.DeleteFunc(slices.Clone(g.routers), func(r *router) bool { return r == gone })
}

// call asks a router's admin listener; v, unless nil, is what a good answer is decoded into.
func (g *ring) call(r *router, method, path, body string, v any) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.desk()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && v != nil {
		err = json.Unmarshal(answer, v)
	}
	return resp.StatusCode, string(bytes.TrimSpace(answer)), err
}

func (g *ring) status(r *router) (s admin.Status, err error) {
	_, _, err = g.call(r, http.MethodGet, "/admin/v1/status", "", &s)
	return s, err
}

// write changes the weight of gpu-0 through a router, once.
func (g *ring) write(r *router) (status int, answer string, err error) {
	return g.call(r, http.MethodPut, "/admin/v1/backends/gpu-0/weight", fmt.Sprintf(`{"weight": %d}`, g.weight.Add(1)+1), nil)
}

// commit writes through a router until the cluster agrees, and returns the epoch.
func (g *ring) commit(r *router) (epoch string) {
	g.t.Helper()
	var status int
	var answer string
	var err error
	within(g.t, patience, "a new epoch through "+r.cfg.Router.Name, func() bool {
		status, answer, err = g.write(r)
		return err == nil && status == http.StatusOK
	})
	var w admin.Written
	if err := json.Unmarshal([]byte(answer), &w); err != nil {
		g.t.Fatal(err)
	}
	return w.Epoch
}

// agreed fails the test unless a router has the weight that was last written.
func (g *ring) agreed(r *router) {
	g.t.Helper()
	var list []admin.BackendStatus
	if _, _, err := g.call(r, http.MethodGet, "/admin/v1/backends", "", &list); err != nil {
		g.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(b admin.BackendStatus) bool { return b.ID == "gpu-0" })
	if want := float64(g.weight.Load() + 1); i < 0 || list[i].Weight != want {
		g.t.Errorf("%s has lost a change: the weight is not %v: %+v", r.cfg.Router.Name, want, list)
	}
}
