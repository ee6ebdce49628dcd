package cluster

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secure gives every router a certificate of a common authority and the same gossip key, made by the command line.
func (g *ring) secure() *ring {
	dir := g.t.TempDir()
	for _, r := range g.routers {
		certify(g.t, r, dir)
	}
	return g
}

// certify makes a router's certificate by the authority in dir, which it makes if there is none.
func certify(t *testing.T, r *router, dir string) {
	t.Helper()
	key, name := filepath.Join(dir, "gossip.key"), r.cfg.Router.Name
	if _, err := os.Stat(key); err != nil {
		mustRun(t, "certs", "ca", "--out", dir)
		if err := os.WriteFile(key, []byte(mustRun(t, "certs", "gossip-key")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, "certs", "node", "--ca", dir, "--name", name, "--out", dir)
	r.cfg.Peer.CertFile, r.cfg.Peer.KeyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	r.cfg.Peer.CAFile, r.cfg.Gossip.KeyFile = filepath.Join(dir, "ca.pem"), key
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, code := warmring(t, args...)
	if code != 0 {
		t.Fatalf("warmring %v: exit code %d: %s", args, code, out)
	}
	return out
}

// newcomer is a router that is configured as the ring's are and has not started.
func (g *ring) newcomer(name string) *router {
	like := g.routers[0].cfg
	r := &router{cfg: g.settings(name, block()+"1")}
	r.cfg.Cluster = like.Cluster
	r.cfg.Peer.CertFile, r.cfg.Peer.KeyFile, r.cfg.Peer.CAFile = like.Peer.CertFile, like.Peer.KeyFile, like.Peer.CAFile
	r.cfg.Gossip.KeyFile = like.Gossip.KeyFile
	return r
}

// A cluster with certificates and an encrypted gossip lives through a kill, and keeps out whom it should. Who is kept out
// reads in its own log why and what to do; those inside lose nothing by it.
func TestKeptOut(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).secure().start()
	victim := g.without(g.leader())[0]
	victim.kill(t)
	g.commit(g.without(victim)[0])
	victim.start(t)
	before := g.settle(patience)

	l := g.load()
	for _, stranger := range []struct {
		name   string
		change func(r *router)
		words  []string // of a line in its log
	}{
		{"other-authority", func(r *router) {
			key := r.cfg.Gossip.KeyFile
			certify(t, r, t.TempDir())
			r.cfg.Gossip.KeyFile = key
		}, []string{"peer.ca_file"}},
		{"other-key", func(r *router) {
			r.cfg.Gossip.KeyFile = filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(r.cfg.Gossip.KeyFile, []byte(mustRun(t, "certs", "gossip-key")), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"gossip.key_file", "same"}},
		{"other-name", func(r *router) { r.cfg.Cluster.Name = "another" }, []string{"cluster.name", "same"}},
		{"no-certificate", func(r *router) {
			r.cfg.Peer.CertFile, r.cfg.Peer.KeyFile, r.cfg.Peer.CAFile = "", "", ""
		}, []string{"peer.cert_file"}},
	} {
		r := g.newcomer(stranger.name)
		stranger.change(r)
		r.start(t)
		t.Logf("%s reads: %s", stranger.name, r.says(t, stranger.words...))
		if s, err := g.status(r); err == nil && (s.Ready || s.Cluster.ID != "") {
			t.Errorf("%s is in: %+v", stranger.name, s)
		}
		r.kill(t)
	}
	l.flows(t, 20, g.routers...)
	l.faultless(t, g.routers...)
	if after := g.settle(patience); after.Cluster.ID != before.Cluster.ID || after.Epoch != before.Epoch {
		t.Errorf("epoch %s of cluster %s became %s of %s", before.Epoch, before.Cluster.ID, after.Epoch, after.Cluster.ID)
	}
	g.commit(g.routers[0])
}

// Routers that contradict each other about how many found the cluster say so, and found nothing.
func TestContradictoryExpect(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3)
	g.routers[2].cfg.Cluster.Expect = 1
	for _, r := range g.routers {
		r.start(t)
	}
	for _, r := range g.routers {
		t.Logf("%s reads: %s", r.name, r.says(t, "cluster.expect is", "make them equal"))
	}
	for _, r := range g.routers {
		if s, err := g.status(r); err != nil || s.Ready || !strings.Contains(s.NotReady, "cluster.expect") {
			t.Errorf("%s: %+v, %v", r.name, s, err)
		}
		r.kill(t)
	}
	g.routers[2].cfg.Cluster.Expect = 3
	g.start()
}

// What a newcomer expects does not matter to a cluster that runs, nor does it matter to the newcomer.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).start()
	// A router by a name that another one has: names are for people, so it is let in, and the list of members tells them apart.
	twin := g.newcomer("router-0")
	other := g.newcomer("expects-one")
	other.cfg.Cluster.Expect = 1
	twin.start(t)
	other.start(t)
	g.settle(patience, append(g.routers, twin, other)...)
	g.places(20, append(g.routers, twin, other)...)
	g.commit(twin)
	out := mustRun(t, "members", "--admin", g.routers[0].desk())
	t.Logf("members:\n%s", out)
	if strings.Count(out, "router-0-") != 2 {
		t.Errorf("router-0 is there twice, and the list does not tell them apart:\n%s", out)
	}
}

// A seed that does not answer is told, and tried again until it does.
func TestUnreachableSeed(t *testing.T) {
	t.Parallel()
	g := prepare(t, 2)
	for _, r := range g.routers {
		r.cfg.Cluster.Expect = 1
	}
	first, second := g.routers[0], g.routers[1]
	second.cfg.Cluster.Join = first.cfg.Cluster.Join[:1]
	first.cfg.Cluster.Join = nil
	second.start(t)
	t.Logf("reads: %s", second.says(t, "a seed cannot be reached", first.cfg.Peer.Listen))
	s, err := g.status(second)
	if err != nil || s.Ready {
		t.Errorf("%+v, %v", s, err)
	}
	t.Logf("not ready: %s", s.NotReady)
	first.start(t)
	g.settle(patience)
	g.commit(second)
}

// Without a majority of the voters a write is refused within seconds and with the reason, in the API and on the command line.
// Requests are answered as before.
func TestWriteWithoutQuorum(t *testing.T) {
	t.Parallel()
	g := prepare(t, 3).start()
	last := g.routers[0]
	for _, r := range g.without(last) {
		r.kill(t)
	}
	within(t, patience, "the router knows that it is alone", func() bool {
		s, err := g.status(last)
		return err == nil && !s.Cluster.Quorum
	})
	began := time.Now()
	status, answer, err := g.write(last)
	if took := time.Since(began); err != nil || status != http.StatusServiceUnavailable || took > 12*time.Second {
		t.Errorf("a write without a quorum: %d %s after %v, %v", status, answer, took, err)
	}
	t.Logf("%d after %v: %s", status, time.Since(began).Round(time.Millisecond), answer)
	var refusal struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(answer), &refusal); err != nil || !strings.Contains(refusal.Error.Message, "no quorum") {
		t.Errorf("no reason in %s", answer)
	}
	out, code := warmring(t, "backend", "weight", "gpu-0", "2", "--admin", last.desk())
	t.Logf("exit code %d: %s", code, out)
	if code != 1 || !strings.Contains(out, "no quorum") || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	g.places(20, last)
}

// What does not speak as a router is turned away with one line that says what it was.
func TestStrangersAtThePeerPort(t *testing.T) {
	t.Parallel()
	g := prepare(t, 1)
	r := g.routers[0]
	r.cfg.Cluster.Expect = 1
	g.start()
	for range 3 {
		resp, err := g.client.Get("http://" + r.cfg.Peer.Listen + "/metrics")
		if err == nil {
			resp.Body.Close()
			t.Errorf("the peer port answers %s", resp.Status)
		}
	}
	line := r.says(t, "connection to the peer port refused", "speaks HTTP")
	t.Logf("reads: %s", line)
	g.commit(r)
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if n := strings.Count(r.log.text.String(), "peer port refused"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}
