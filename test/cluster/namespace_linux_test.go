package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver/mstest"
)

// lab is network namespaces, each with one interface, joined by a bridge that the test itself is on. Making it takes root.
type lab struct {
	t      *testing.T
	net    string   // the first three bytes of every address; from RFC 2544's network for tests
	spaces []string // names of the namespaces; an interface of the bridge has the same name
}

// namespaces makes a lab with n namespaces, whose addresses end with 1, 2 and so on. Its names have the process' number in
// them, and it is gone with the test.
func namespaces(t *testing.T, n int) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces take the command ip (Debian package iproute2)")
	}
	l := &lab{t: t, net: fmt.Sprintf("198.18.%d.", os.Getpid()%254)}
	bridge := fmt.Sprintf("wr-%d", os.Getpid())
	if out, code := run(t, "ip", "link", "add", bridge, "type", "bridge"); code != 0 {
		t.Skipf("network interfaces cannot be made here: %s", out)
	}
	l.after("link", "del", bridge)
	l.ip("addr", "add", l.net+"254/24", "dev", bridge)
	l.ip("link", "set", bridge, "up")
	for i := range n {
		name := fmt.Sprintf("%s-%d", bridge, i)
		if out, code := run(t, "ip", "netns", "add", name); code != 0 {
			t.Skipf("network namespaces cannot be made here: %s", out)
		}
		l.after("netns", "del", name)
		l.spaces = append(l.spaces, name)
		l.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
		l.after("link", "del", name)
		l.ip("link", "set", name, "master", bridge, "up")
		l.ip("-n", name, "addr", "add", l.address(i+1)+"/24", "dev", "eth0")
		l.ip("-n", name, "link", "set", "lo", "up")
		l.ip("-n", name, "link", "set", "eth0", "up")
	}
	return l
}

func (l *lab) address(host int) string { return fmt.Sprint(l.net, host) }

func (l *lab) ip(args ...string) {
	l.t.Helper()
	if out, code := run(l.t, append([]string{"ip"}, args...)...); code != 0 {
		l.t.Fatalf("ip %s: %s", strings.Join(args, " "), out)
	}
}

// after runs ip at the end of the test, when its context is over.
func (l *lab) after(args ...string) {
	l.t.Cleanup(func() {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			l.t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	})
}

// prepare makes a ring with one router in each namespace, in front of model servers on the bridge.
func (l *lab) prepare() *ring {
	l.t.Helper()
	g := &ring{t: l.t, client: client(l.t)}
	for range 2 {
		ln, err := net.Listen("tcp", l.address(254)+":0")
		if err != nil {
			l.t.Fatal(err)
		}
		g.servers = append(g.servers, mstest.StartOn(l.t, fast(), ln))
	}
	var join []string
	for i, space := range l.spaces {
		r := &router{cfg: g.settings(fmt.Sprint("router-", i), "127.0.0.1"), inside: []string{"ip", "netns", "exec", space}}
		r.cfg.API.Insecure, r.cfg.Admin.Insecure, r.cfg.Peer.Insecure = true, true, true
		l.place(r, i+1)
		join = append(join, r.cfg.Peer.Listen)
		g.routers = append(g.routers, r)
	}
	for _, r := range g.routers {
		r.cfg.Cluster.Join = join
	}
	return g
}

// place gives a router the addresses of a host. In a namespace of its own every port is free.
func (l *lab) place(r *router, host int) {
	at := l.address(host)
	r.cfg.API.Listen, r.cfg.Admin.Listen, r.cfg.Peer.Listen = at+":8080", at+":9080", at+":7400"
}

// space is the name of the namespace of a router, and of its link.
func (l *lab) space(g *ring, r *router) string { return l.spaces[slices.Index(g.routers, r)] }

// A router's link is cut: no refusals and no resets, only silence. The others go on. When the link is back there is one
// membership and one epoch within 30 s, and nobody was restarted.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	lab := namespaces(t, 3)
	g := lab.prepare().onDisk().start()
	cut := g.leader()
	others := g.without(cut)
	link := lab.space(g, cut)
	lab.ip("link", "set", link, "down")
	began := time.Now()
	epoch := g.commit(others[0])
	t.Logf("link of the leader down to the next committed epoch %s: %v", epoch, time.Since(began).Round(time.Millisecond))
	g.settle(patience, others...)
	g.places(50, others...)
	g.commit(others[1])

	lab.ip("link", "set", link, "up")
	healed := time.Now()
	// 15 s (gossip.rejoin) pass by timers, whatever the machine does; the rest is for the exchange.
	g.settle(30 * time.Second)
	t.Logf("link up to one membership and one epoch: %v", time.Since(healed).Round(time.Millisecond))
	g.agreed(cut)
	g.commit(cut)

	// The host of a router gets another address. A router looks at its own when it starts.
	moved := others[0]
	before := g.settle(patience)
	moved.kill(t)
	space := lab.space(g, moved)
	lab.ip("-n", space, "addr", "flush", "dev", "eth0")
	lab.ip("-n", space, "addr", "add", lab.address(100)+"/24", "dev", "eth0")
	lab.place(moved, 100) // cluster.join still has the former address, here and in the others
	moved.start(t)
	after := g.settle(patience)
	if after.Cluster.ID != before.Cluster.ID || after.Cluster.Generation != before.Cluster.Generation {
		t.Errorf("cluster %s became generation %d of %s", before.Cluster.ID, after.Cluster.Generation, after.Cluster.ID)
	}
	g.agreed(moved)
	g.commit(moved)
	g.voters()
}
