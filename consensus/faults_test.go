package consensus

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

// seeds runs fn as so many parallel subtests, or a fourth of them with -short.
func seeds(t *testing.T, n uint64, fn func(w *world)) {
	t.Helper()
	if testing.Short() {
		n = (n + 3) / 4
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, seed, fn)
		})
	}
}

// startAll starts replicas and waits until they are one cluster.
func (w *world) startAll(hosts []string, o options, voters int) map[string]*replica {
	w.t.Helper()
	out := map[string]*replica{}
	for _, h := range hosts {
		out[h] = w.start(h, o)
	}
	w.settled(30*time.Second, voters)
	return out
}

func others(all []string, not ...string) []string {
	var out []string
	for _, h := range all {
		if !slices.Contains(not, h) {
			out = append(out, h)
		}
	}
	return out
}

// Two groups that expect three each and share one replica must never make two
// clusters that commit.
func TestOverlappingExpectations(t *testing.T) {
	seeds(t, 20, func(w *world) {
		for _, h := range five {
			w.start(h, options{expect: 3})
		}
		w.set(w.blind, []string{"a", "b"}, []string{"d", "e"}, true)
		for range 600 {
			clusters := map[string]bool{}
			for _, r := range w.leaders() {
				clusters[r.Status().Cluster] = true
			}
			if len(clusters) > 1 {
				w.t.Fatalf("two clusters commit:\n%s", w.describe())
			}
			time.Sleep(50 * time.Millisecond)
		}
		w.set(w.blind, []string{"a", "b"}, []string{"d", "e"}, false)
		w.settled(90*time.Second, 5)
	})
}

// A replica that lost a founding's vote by a restart makes the founding fail as a
// whole, and the next one succeed.
func TestVoterRestartsDuringFounding(t *testing.T) {
	seeds(t, 10, func(w *world) {
		all := map[string]*replica{}
		for _, h := range five[:3] {
			all[h] = w.start(h, options{expect: 3})
		}
		begun := func() bool {
			return slices.ContainsFunc(w.all(), func(r *replica) bool { return r.Status().Cluster != "" })
		}
		for !begun() { // the other voters are asked for their votes at once
			time.Sleep(50 * time.Microsecond)
		}
		restarted := false
		for h, r := range all {
			if r.Status().Cluster == "" {
				restarted = true
				r.kill()
				w.start(h, options{expect: 3})
				break
			}
		}
		if !restarted {
			w.t.Fatal("all were sealed at once: nothing is tested")
		}
		w.settled(2*time.Minute, 3)
		w.put(5*time.Second, 9)
	})
}

func TestLeaderIsolatedOrKilled(t *testing.T) {
	seeds(t, 10, func(w *world) {
		all := w.startAll(five, options{expect: 5}, 5)
		for round := range 3 {
			leader := w.leaders()[0]
			host := leader.host.Name()
			var rest []*replica
			for h, r := range all {
				if h != host {
					rest = append(rest, r)
				}
			}
			heal := func() {}
			if round < 2 {
				heal = w.split([]string{host}, others(five, host))
			} else {
				leader.kill()
			}
			began := time.Now()
			w.put(5*time.Second, 10+round, rest...)
			if took := time.Since(began); took > 5*time.Second {
				w.t.Errorf("the next epoch took %v", took)
			}
			if round < 2 && hasBackend(leader.epoch.Load(), 10+round) {
				w.t.Error("the isolated leader knows the new epoch")
			}
			heal()
			if round < 2 {
				w.settled(10*time.Second, 5)
				w.within(5*time.Second, "the old leader catches up", func() bool { return hasBackend(leader.epoch.Load(), 10+round) })
			}
		}
	})
}

func TestMinorityKeepsItsEpochAndHeals(t *testing.T) {
	seeds(t, 10, func(w *world) {
		all := w.startAll(five, options{expect: 5}, 5)
		before := w.put(5*time.Second, 5)
		w.within(2*time.Second, "epoch everywhere", func() bool { return w.agreed(before.ID()) })
		heal := w.split(five[:2], five[2:])
		w.put(5*time.Second, 6, all["c"], all["d"], all["e"])
		time.Sleep(4 * patience)
		for _, h := range five[:2] {
			if got := all[h].epoch.Load().ID(); got != before.ID() {
				w.t.Errorf("%s went from %s to %s in the minority", h, before.ID(), got)
			}
			if st := all[h].Status(); st.Quorum || st.Waiting == "" {
				w.t.Errorf("%s: %+v", h, st)
			}
			if _, err := all[h].Propose(w.t.Context(), Proposal{ID: "x"}); err == nil {
				w.t.Error("the minority takes proposals")
			}
		}
		heal()
		w.settled(30*time.Second, 5)
		after := w.put(5*time.Second, 7)
		w.within(2*time.Second, "epoch everywhere", func() bool { return w.agreed(after.ID()) })
	})
}

func (w *world) agreed(id string) bool {
	for _, r := range w.all() {
		if e := r.epoch.Load(); e == nil || e.ID() != id {
			return false
		}
	}
	return true
}

func TestAllAddressesChangeAtOnce(t *testing.T) {
	seeds(t, 5, func(w *world) {
		dirs := map[string]string{}
		all := map[string]*replica{}
		for _, h := range five[:3] {
			dirs[h] = w.t.TempDir()
			all[h] = w.start(h, options{expect: 3, dir: dirs[h]})
		}
		w.settled(30*time.Second, 3)
		before := w.put(5*time.Second, 5)
		servers := map[string]string{}
		for h, r := range all {
			servers[h] = r.Status().Server
			w.net.Host(h).Move()
			_ = r.end() // its listener is gone
		}
		for h := range all {
			all[h] = w.start(h, options{expect: 3, dir: dirs[h]})
		}
		w.settled(15*time.Second, 3)
		for h, r := range all {
			if r.Status().Server != servers[h] {
				w.t.Errorf("%s has another identity after a restart with its data", h)
			}
		}
		if after := w.put(5*time.Second, 6); after.Compare(before) <= 0 || !hasBackend(after, 5) {
			w.t.Errorf("epoch %s follows %s", after.ID(), before.ID())
		}
	})
}

// A voter restarted from its file serves the committed epoch before it knows a leader.
func TestRestartFromFileAlone(t *testing.T) {
	bubble(t, 1, func(w *world) {
		dir := w.t.TempDir()
		r := w.start("a", options{expect: 1, dir: dir})
		w.settled(10*time.Second, 1)
		before := w.put(time.Second, 5)
		w.put(time.Second, 6)
		r.stop()
		r = w.start("a", options{expect: 3, dir: dir})
		w.within(50*time.Millisecond, "the epoch", func() bool { return hasBackend(r.epoch.Load(), 5) })
		if r.epoch.Load().Generation() != before.Generation() {
			w.t.Error("another generation")
		}
		w.settled(5*time.Second, 1)
	})
}

func TestVotersLostNewGeneration(t *testing.T) {
	seeds(t, 10, func(w *world) {
		hosts := append(append([]string{}, five...), "f", "g")
		all := w.startAll(hosts, options{expect: 3}, 5)
		epoch := w.put(5*time.Second, 5)
		w.within(2*time.Second, "epoch everywhere", func() bool { return w.agreed(epoch.ID()) })
		cluster := w.leaders()[0].Status().Cluster
		killed := 0
		for _, r := range all {
			if role := r.Status().Role; killed < 3 && (role == Voter || role == Leader) {
				r.kill()
				killed++
			}
		}
		took := w.within(3*time.Minute, "a new generation", func() bool {
			l := w.leaders()
			return len(l) == 1 && l[0].Status().Generation == 2
		})
		if took < patience {
			w.t.Errorf("it came after %v already", took)
		}
		w.settled(30*time.Second, 4-1) // four are alive: three seats
		after := w.put(5*time.Second, 6)
		if after.Generation() != 2 || !hasBackend(after, 5) || w.leaders()[0].Status().Cluster != cluster {
			w.t.Errorf("epoch %s does not continue %s", after.ID(), epoch.ID())
		}
		w.start("h", options{expect: 3})
		w.settled(60*time.Second, 5)
	})
}

// Voters that come back from a partition after the others founded a generation give
// up what they had.
func TestOldVotersFollowTheNewGeneration(t *testing.T) {
	seeds(t, 5, func(w *world) {
		hosts := append(append([]string{}, five...), "f", "g")
		all := w.startAll(hosts, options{expect: 3}, 5)
		var cut []string
		for h, r := range all {
			if r.Status().Role >= Voter && len(cut) < 3 {
				cut = append(cut, h)
			}
		}
		heal := w.split(cut, others(hosts, cut...))
		w.within(3*time.Minute, "a new generation", func() bool {
			for _, r := range w.leaders() {
				if r.Status().Generation == 2 {
					return true
				}
			}
			return false
		})
		heal()
		w.settled(time.Minute, 5)
		if g := w.leaders()[0].Status().Generation; g != 2 {
			w.t.Errorf("generation %d after healing", g)
		}
	})
}

// A voter's memory is wiped and it comes back at the same address while another voter
// still takes it for the old one. Unless it refuses to answer for its old id, it
// votes a stale replica into leadership and a committed entry is lost.
func TestWipedVoterLosesNothing(t *testing.T) {
	for _, unchecked := range []bool{false, true} {
		t.Run(fmt.Sprintf("unchecked=%v", unchecked), func(t *testing.T) {
			seeds(t, 5, func(w *world) {
				lost := w.wipe(unchecked)
				if lost != unchecked {
					w.t.Errorf("committed entry lost: %v\n%s", lost, w.describe())
				}
			})
		})
	}
}

func (w *world) wipe(unchecked bool) (lost bool) {
	hosts := five[:3]
	all := w.startAll(hosts, options{expect: 3}, 3)
	leader := w.leaders()[0]
	rest := others(hosts, leader.host.Name())
	wiped, stale := all[rest[0]], all[rest[1]]

	w.within(2*time.Second, "the stale one knows the founding", func() bool { return stale.Hello().Number > 0 })
	// Never healed: what the leader has sent would still arrive.
	w.split([]string{stale.host.Name()}, []string{leader.host.Name()})
	heal := w.split([]string{stale.host.Name()}, []string{wiped.host.Name()})
	w.put(5*time.Second, 5, leader)
	believed := []Member{wiped.member(), stale.member()}
	w.within(2*time.Second, "the wiped one has it", func() bool { return wiped.Status().LastIndex == leader.Status().LastIndex })
	leader.kill()
	wiped.kill()
	heal()
	again := w.start(wiped.host.Name(), options{expect: 3, unchecked: unchecked})
	for i := range believed {
		if believed[i].Server == wiped.Status().Server {
			believed[i].Name, believed[i].Address = again.name, again.addr
		}
	}
	if unchecked { // bound before the stale one's gossip is frozen: only the target id protects then
		w.within(5*time.Second, "the wiped one is bound", func() bool { return again.Status().Role == Subscriber })
	}
	stale.stale.Store(&believed)
	for range 200 {
		if st := stale.Status(); st.Role == Leader && st.Quorum {
			time.Sleep(time.Second)
			e, _ := stale.current.Load().machine.now()
			return !hasBackend(e, 5)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

func TestGracefulRollingRestart(t *testing.T) {
	seeds(t, 5, func(w *world) {
		hosts := five[:4]
		all := w.startAll(hosts, options{expect: 3}, 3)
		w.put(5*time.Second, 5)
		for i, h := range hosts {
			r := all[h]
			r.leave.Store(true)
			time.Sleep(300 * time.Millisecond) // gossip
			ctx, cancel := timeout(w.t, 10*time.Second)
			if err := r.Leave(ctx); err != nil {
				w.t.Errorf("%s: Leave: %v", h, err)
			}
			cancel()
			r.stop()
			w.put(5*time.Second, 20+i)
			all[h] = w.start(h, options{expect: 3})
			w.settled(30*time.Second, 3)
		}
		if e := w.put(5*time.Second, 30); e.Generation() != 1 || !hasBackend(e, 5) || !hasBackend(e, 23) {
			w.t.Errorf("epoch %s has lost something", e.ID())
		}
	})
}

func TestDeadVoterIsReplaced(t *testing.T) {
	seeds(t, 5, func(w *world) {
		all := w.startAll(five[:4], options{expect: 3}, 3)
		var dead *replica
		for _, r := range all {
			if r.Status().Role == Voter {
				dead = r
			}
		}
		id := dead.Status().Server
		dead.kill()
		took := w.within(3*time.Minute, "the dead voter's seat is given away", func() bool {
			l := w.leaders()
			return len(l) == 1 && !slices.Contains(l[0].Status().Voters, id) && len(l[0].Status().Voters) == 3
		})
		if took < deadAfter {
			w.t.Errorf("it was replaced after %v", took)
		}
	})
}

// A write without a quorum is refused in bounded time and changes nothing.
func TestProposeWithoutQuorum(t *testing.T) {
	bubble(t, 1, func(w *world) {
		all := w.startAll(five[:3], options{expect: 3}, 3)
		leader := w.leaders()[0]
		for _, r := range all {
			if r != leader {
				r.kill()
			}
		}
		ctx, cancel := timeout(w.t, 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := leader.Propose(ctx, Proposal{Change: routing.Change{Drain: []string{"gpu-0"}}})
		if err == nil || time.Since(began) > 4*time.Second {
			w.t.Errorf("Propose: %v after %v", err, time.Since(began))
		}
		time.Sleep(2 * time.Second)
		if _, err := leader.Propose(w.t.Context(), Proposal{}); !isNoQuorum(err) {
			w.t.Errorf("Propose: %v", err)
		}
	})
}

// A leader whose disk fails hands over, and says why it does not lead.
func TestLeaderWithABrokenDisk(t *testing.T) {
	seeds(t, 3, func(w *world) {
		broken := map[*replica]*atomic.Bool{}
		for _, h := range five[:3] {
			r := w.start(h, options{expect: 3, dir: w.t.TempDir()})
			broken[r] = r.breakable
		}
		w.settled(30*time.Second, 3)
		leader := w.leaders()[0]
		broken[leader].Store(true)
		var rest []*replica
		for r := range broken {
			if r != leader {
				rest = append(rest, r)
			}
		}
		ctx, cancel := timeout(w.t, time.Second)
		defer cancel()
		if _, err := leader.Propose(ctx, Proposal{Change: putN(5)}); err == nil {
			w.t.Error("it was committed by a leader that cannot write")
		}
		w.put(10*time.Second, 6, rest...)
		w.within(20*time.Second, "the reason", func() bool { return strings.Contains(leader.Status().Waiting, "consensus.data_dir") })
		broken[leader].Store(false)
		w.settled(30*time.Second, 3)
	})
}
