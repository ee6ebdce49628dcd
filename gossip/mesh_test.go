package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

func TestMembership(t *testing.T) {
	for _, n := range []int{1, 3, 10, 30} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(w *world) {
				t := w.t
				w.onMembers = func(members []Member, reached int) {
					if reached >= len(members) { // a router that expects one would found beside those it met
						t.Errorf("%d seeds answered, %d members, this router included", reached, len(members))
					}
				}
				routers := w.cluster(n)
				for _, m := range routers[0].Members() {
					if m.Addr != w.at(m.Name) {
						t.Errorf("%s is said to be at %s", m.Name, m.Addr)
					}
				}
				if n < 3 { // the other seeds have no names
					return
				}
				want := 3
				if n == 3 { // the last one is a seed
					want = 2
				}
				if total, reached := routers[n-1].Reached(); total != want || reached != want {
					t.Errorf("reached %d of %d seeds, want %d", reached, total, want)
				}
			})
		})
	}
}

func TestMetaReachesAll(t *testing.T) {
	bubble(t, func(w *world) {
		routers := w.cluster(10)
		for epoch := uint64(1); epoch <= 5; epoch++ {
			meta := Meta{Router: "router", Server: "0011223344556677", Generation: 1, Epoch: epoch, Digest: epoch * 7, Voter: true}
			routers[3].SetMeta(meta)
			w.within(time.Second, "the epoch is everywhere", func() bool {
				for _, r := range routers {
					if r.member(routers[3].name).Meta != meta {
						return false
					}
				}
				return true
			})
		}
	})
}

func TestKill(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(10)
		dead, rest := routers[4], append(routers[:4:4], routers[5:]...)
		dead.host.Kill()
		dead.stop()
		took := w.within(30*time.Second, "it is gone", func() bool { return see(rest, rest) })
		t.Logf("noticed after %s", took)

		dead.host.Restart()
		again := w.start(dead.host.Name())
		all := append(rest[:9:9], again)
		w.within(2*time.Second, "it is back under a new name", func() bool { return see(all, all) })
	})
}

func TestRestartAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		routers := w.cluster(5)
		old := routers[4]
		old.host.Kill()
		old.stop()
		old.host.Restart()
		all := append(routers[:4:4], w.start(old.host.Name()))
		w.within(30*time.Second, "the old name is gone, the new one there", func() bool { return see(all, all) })
	})
}

func TestLeave(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(10)
		start := time.Now()
		if err := routers[0].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("leaving took %s", took)
		}
		rest := routers[1:]
		w.within(time.Second, "the others know", func() bool { return see(rest, rest) })
		routers[0].SetMeta(Meta{Epoch: 9}) // does not bring it back
		time.Sleep(2 * time.Minute)
		if !see(rest, rest) {
			t.Error("it came back")
		}
		if err := routers[0].Leave(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
		routers[0].stop()
		if err := routers[0].Leave(t.Context()); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestPartitionHeals(t *testing.T) {
	for _, cut := range []time.Duration{20 * time.Second, 3 * time.Minute} {
		t.Run(cut.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				t := w.t
				routers := w.cluster(6)
				left, right := routers[:3], routers[3:]
				fault := w.net.Split(hosts(left), hosts(right))
				time.Sleep(cut)
				if cut > time.Minute && (!see(left, left) || !see(right, right)) {
					t.Fatal("the partition was not noticed")
				}
				fault.Heal()
				took := w.within(w.cfg.Rejoin+5*time.Second, "one membership", func() bool { return see(routers, routers) })
				t.Logf("healed after %s", took)
			})
		})
	}
}

// TestPartitionHealsWithoutSeeds relies on the addresses of those who went.
func TestPartitionHealsWithoutSeeds(t *testing.T) {
	bubble(t, func(w *world) {
		routers := w.cluster(6)
		left, right := routers[:3], routers[3:]
		w.net.SetResolver(time.Millisecond, errors.New("the resolver is down"))
		for _, r := range routers {
			r.seeds.set(nil)
		}
		fault := w.net.Split(hosts(left), hosts(right))
		time.Sleep(3 * time.Minute)
		fault.Heal()
		w.within(2*w.cfg.Rejoin+5*time.Second, "one membership", func() bool { return see(routers, routers) })
	})
}

// TestSeedsMove lets the seeds' names lead elsewhere after the routers started.
func TestSeedsMove(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.seeds = []string{"routers"}
		w.net.SetName("routers", w.net.Host("nobody").IP())
		a, b := w.start("a"), w.start("b")
		both := []*router{a, b}
		time.Sleep(30 * time.Second)
		if total, reached := a.Reached(); total != 1 || reached != 0 {
			t.Errorf("reached %d of %d, want 0 of 1", reached, total)
		}
		if len(a.journal.lines("a seed cannot be reached")) != 1 {
			t.Errorf("want one line about the seed in: %s", a.journal)
		}
		w.net.SetName("routers", a.host.IP(), b.host.IP())
		w.within(10*time.Second, "they meet", func() bool { return see(both, both) })
		if total, reached := a.Reached(); total != 1 || reached != 1 {
			t.Errorf("reached %d of %d, want 1 of 1", reached, total)
		}
	})
}

// TestSeedsBecomeKnown lets most of the seeds' names come a moment after the router that waits for them has met one, while
// nobody answers at another: founders, who count the seeds that they reached, must not wait for the interval of a cluster.
func TestSeedsBecomeKnown(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.net.SetName("gone", netip.MustParseAddr("10.9.9.9"))
		w.seeds = []string{"gone", "r0", "r1", "r2", "r3"}
		all := []*router{w.start("r0"), w.start("r1")}
		time.Sleep(100 * time.Millisecond)
		if total, reached := all[0].Reached(); total != 2 || reached > 1 {
			t.Errorf("reached %d of %d, want at most 1 of 2", reached, total)
		}
		all = append(all, w.start("r2"), w.start("r3"))
		w.within(5*time.Second, "the first one reached three of its four seeds", func() bool {
			total, reached := all[0].Reached()
			return total == 4 && reached == 3
		})
		if !see(all, all) {
			t.Error("they are no cluster")
		}
	})
}

func TestNamesFail(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.net.SetResolver(time.Millisecond, errors.New("the resolver is down"))
		r := w.start("r0")
		time.Sleep(5 * time.Second)
		if total, reached := r.Reached(); total != 1 || reached != 0 {
			t.Errorf("reached %d of %d: unresolved seeds must not look like none", reached, total)
		}
		if len(r.journal.lines("seeds not resolved")) != 1 {
			t.Errorf("want one line about the seeds in: %s", r.journal)
		}
		w.net.SetResolver(time.Millisecond, nil)
		all := []*router{r, w.start("r1"), w.start("r2")}
		w.within(10*time.Second, "they meet", func() bool { return see(all, all) })
	})
}

// TestOtherCluster lets the seeds of two clusters lead to each other, as when addresses are given out again.
func TestOtherCluster(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.seeds = []string{"a0"}
		ours := []*router{w.start("a0"), w.start("a1")}
		w.seeds = []string{"b0"}
		theirs := []*router{w.start("b0"), w.start("b1")}
		for i, group := range [][]*router{ours, theirs} {
			w.within(5*time.Second, "each cluster is one", func() bool { return see(group, group) })
			for _, r := range group {
				r.SetMeta(Meta{Cluster: fmt.Sprintf("cluster-%d", i)})
			}
		}
		time.Sleep(time.Second)
		w.net.SetName("b0", ours[0].host.IP())
		w.within(2*w.cfg.Rejoin, "they try", func() bool { return len(theirs[1].journal.lines("another cluster")) > 0 })
		time.Sleep(time.Minute)
		if !see(ours, ours) || !see(theirs, theirs) {
			t.Error("the clusters merged")
		}
		line := theirs[1].journal.lines("router of another cluster refused")[0]
		for _, want := range []string{"cluster=cluster-0", "own_cluster=cluster-1", "address=10."} {
			if !strings.Contains(line, want) {
				t.Errorf("want %s in %s", want, line)
			}
		}
		if n := len(theirs[1].journal.lines("another cluster")); n > 8 { // two subjects, once a minute each
			t.Errorf("%d lines", n)
		}
	})
}

// TestMemberChangesCluster covers a router that was a member before it said to which cluster it belongs.
func TestMemberChangesCluster(t *testing.T) {
	bubble(t, func(w *world) {
		routers := w.cluster(3)
		routers[0].SetMeta(Meta{Cluster: "one"})
		routers[1].SetMeta(Meta{Cluster: "one"})
		routers[2].SetMeta(Meta{Cluster: "two"})
		w.within(2*time.Second, "it is out", func() bool { return see(routers[:2], routers[:2]) && see(routers[2:], routers[2:]) })
		routers[2].SetMeta(Meta{Cluster: "one"})
		w.within(2*time.Second, "it is in again", func() bool { return see(routers, routers) })
	})
}

// TestStopWhileJoining ends a router whose attempt to join got a connection and no answer.
func TestStopWhileJoining(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		seed := w.start("r0")
		w.seeds = []string{"r0"}
		w.net.BlackHole(hosts([]*router{seed}), simnet.Group{w.net.Host("a")})
		joiner := w.start("a")
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		joiner.stop()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// Of two members at one address the later one counts: the earlier has lost it.
func TestOneMemberAtAnAddress(t *testing.T) {
	r := newRoster()
	at := netip.MustParseAddrPort("10.0.0.2:7400")
	own := Member{Name: "own", Addr: "10.0.0.1:7400"}
	r.put(Member{Name: "n-1", Addr: at.String()}, at)
	r.put(Member{Name: "n-2", Addr: at.String()}, at)
	r.put(Member{Name: "n-1", Addr: at.String(), Meta: Meta{Epoch: 7}}, at) // late news of the earlier one
	r.put(Member{Name: "own-0", Addr: own.Addr}, netip.MustParseAddrPort(own.Addr))
	var names []string
	for _, m := range r.list(own) {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"n-2", "own"}) {
		t.Errorf("members are %v", names)
	}
}
