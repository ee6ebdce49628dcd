package peer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/test/sim/simnet"
)

func TestTwoExchange(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.complete(time.Second)
		a, b := c.routers[0], c.routers[1]
		a.set("gpu-0", 3)
		b.set("gpu-0", 5)
		took := c.within(time.Second, "counts arrive", func() bool { return a.inflight() == 5 && b.inflight() == 3 })
		if took > 30*time.Millisecond {
			c.Errorf("a change took %v to arrive", took)
		}
		a.set("gpu-0", 0)
		c.within(time.Second, "counts leave", func() bool { return b.inflight() == 0 })
		// At rest only heartbeats flow: two a second and side.
		before := a.mesh.Counts()
		time.Sleep(10 * time.Second)
		after := a.mesh.Counts()
		if n := after.FramesSent - before.FramesSent; n < 19 || n > 21 {
			c.Errorf("%d frames in 10 s of rest", n)
		}
		if after.Opened != 1 || after.Streams != 1 {
			c.Errorf("%+v: want one stream for the pair", after)
		}
		if age := a.mesh.Ages(time.Now())["r01"]; age > 510*time.Millisecond {
			c.Errorf("age %v", age)
		}
	})
}

// Many changes make few frames.
func TestGap(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.complete(time.Second)
		a := c.routers[0]
		before := a.mesh.Counts().FramesSent
		for i := range 1000 {
			a.set("gpu-0", i)
			time.Sleep(time.Millisecond)
		}
		if n := a.mesh.Counts().FramesSent - before; n < 45 || n > 55 {
			c.Errorf("%d frames in a second of changes, want 50", n)
		}
	})
	for peers, want := range map[int]int64{0: 20, 30: 20, 65: 110, 100: 200, 1000: 200} {
		if got := Gap(peers); got.Milliseconds() != want {
			t.Errorf("gap for %d peers: %v", peers, got)
		}
	}
}

func TestKilledRouterLeavesNothingInFlight(t *testing.T) {
	inBubble(t, 10, func(c *cluster) {
		c.complete(2 * time.Second)
		dead := c.routers[4]
		for i := range 50 {
			dead.set(fmt.Sprintf("gpu-%d", i), 10)
		}
		others := append(append([]*router{}, c.routers[:4]...), c.routers[5:]...)
		all := func(n int) func() bool {
			return func() bool {
				for _, r := range others {
					if r.inflight() != n {
						return false
					}
				}
				return true
			}
		}
		c.within(time.Second, "500 in flight everywhere", all(500))
		dead.kill()
		c.Logf("zero after %v", c.within(2*time.Second, "zero in flight everywhere", all(0)))
		if _, complete := others[0].mesh.Reports(time.Now()); complete {
			c.Error("complete without a member")
		}
		c.know(others...)
		if _, complete := others[0].mesh.Reports(time.Now()); !complete {
			c.Error("not complete with all members")
		}
	})
}

// A peer that cannot be heard counts for 1.5 s, whether or not its connection breaks,
// and is whole again soon after it can be heard.
func TestSilenceAndHeal(t *testing.T) {
	faults := map[string]func(n *simnet.Network, a, b simnet.Group) *simnet.Fault{
		"split": (*simnet.Network).Split, "one way": (*simnet.Network).OneWay, "black hole": (*simnet.Network).BlackHole,
	}
	for name, fault := range faults {
		for _, length := range []time.Duration{3 * time.Second, 30 * time.Second} {
			t.Run(fmt.Sprint(name, " ", length), func(t *testing.T) {
				inBubble(t, 3, func(c *cluster) {
					c.complete(time.Second)
					lost, b, d := c.routers[0], c.routers[1], c.routers[2]
					lost.set("gpu-0", 7)
					c.within(time.Second, "known", func() bool { return b.inflight() == 7 && d.inflight() == 7 })
					f := fault(c.net, simnet.Group{lost.host}, simnet.Group{b.host, d.host})
					took := c.within(2200*time.Millisecond, "forgotten", func() bool { return b.inflight() == 0 && d.inflight() == 0 })
					if took < 900*time.Millisecond {
						c.Errorf("forgotten after %v already", took)
					}
					lost.set("gpu-0", 8) // nobody hears of this one
					time.Sleep(length)
					f.Heal()
					c.Logf("healed in %v", c.within(5*time.Second, "known again", func() bool { return b.inflight() == 8 && d.inflight() == 8 }))
					c.complete(time.Second)
				})
			})
		}
	}
}

// A connection that breaks and comes back takes no count with it.
func TestReset(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, _ := c.busy()
		for range 20 {
			a.breakStream()
			for range 320 {
				if n := a.inflight(); n != 4 {
					c.Fatalf("%d in flight, want 4", n)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		if n := a.mesh.Counts().Opened; n != 21 {
			c.Errorf("%d streams were opened", n)
		}
	})
}

// Connections that nothing is sent on last: the pings are not too many for the server.
func TestIdleConnectionsLast(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.complete(time.Second)
		a, b := c.routers[0], c.routers[1]
		for range 3 {
			if _, err := b.client.Hello(c.Context(), a.address); err != nil {
				c.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
		}
		if len(a.dialled) != 1 || len(b.dialled) != 1 || a.mesh.Counts().Opened != 1 {
			c.Errorf("dialled %d and %d times", len(a.dialled), len(b.dialled))
		}
	})
}

func TestMemberLeavesAndComesBack(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.complete(time.Second)
		a, b := c.routers[0], c.routers[1]
		a.set("gpu-0", 2)
		c.within(time.Second, "known", func() bool { return b.inflight() == 2 })
		b.know(b) // b no longer sees a, which still holds b for a member and goes on dialling
		c.within(50*time.Millisecond, "forgotten", func() bool { return b.inflight() == 0 })
		time.Sleep(5 * time.Second)
		if n := b.inflight(); n != 0 {
			c.Errorf("%d in flight of who is no member", n)
		}
		b.know(a, b)
		c.within(1500*time.Millisecond, "known again", func() bool { return b.inflight() == 2 })
	})
}

// busy waits until the first router knows that the second has four requests in flight.
func (c *cluster) busy() (a, b *router) {
	c.Helper()
	c.complete(time.Second)
	a, b = c.routers[0], c.routers[1]
	b.set("gpu-0", 4)
	c.within(time.Second, "known", func() bool { return a.inflight() == 4 })
	return a, b
}

// A router that starts anew has another name, and often the address of the old one.
func TestAnotherRouterAtTheAddress(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, b := c.busy()
		b.kill()
		b.host.Restart()
		again := c.add("r01")
		again.name = "r02"
		again.start()
		again.know(a, again)
		again.set("gpu-0", 1)
		time.Sleep(5 * time.Second) // a dials r01 and finds r02
		if n := a.inflight(); n != 0 {
			c.Errorf("%d in flight from a router by another name", n)
		}
		a.know(a, again)
		c.within(time.Second, "the new one is known", func() bool { return a.inflight() == 1 && a.mesh.complete(time.Now()) })
		c.routers = []*router{a, again}
	})
}

// Who is a member no more is forgotten at once, also if its stream broke just before.
func TestWhoLeftIsForgottenAtOnce(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, _ := c.busy()
		a.breakStream()
		c.within(time.Second, "broken", func() bool { return a.mesh.Counts().Streams == 0 })
		if n := a.inflight(); n != 4 {
			c.Errorf("%d in flight when the stream broke", n)
		}
		a.know(a)
		c.within(20*time.Millisecond, "forgotten", func() bool { return a.inflight() == 0 })
	})
}

func TestForeignRouterIsRefused(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, b := c.busy()
		b.mu.Lock()
		b.id = "c2"
		b.mu.Unlock()
		c.within(2200*time.Millisecond, "forgotten", func() bool { return a.inflight() == 0 && a.mesh.Counts().Streams == 0 })
		time.Sleep(5 * time.Second)
		if n := a.inflight(); n != 0 {
			c.Errorf("%d in flight from another cluster", n)
		}
	})
}

// A member that does not read holds up nobody else, and nothing is queued for it.
func TestPeerThatDoesNotRead(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		c.complete(time.Second)
		a, stuck, b := c.routers[0], c.routers[1], c.routers[2]
		f := c.net.OneWay(simnet.Group{stuck.host}, simnet.Group{a.host}) // no window updates come back
		for i := range 100 * 100 {
			a.set(fmt.Sprintf("gpu-%03d-%s", i%1000, "a-name-that-fills-windows-sooner-than-a-short-one-would"), i)
			if i%100 == 99 {
				time.Sleep(25 * time.Millisecond)
			}
		}
		c.within(60*time.Millisecond, "the other one is up to date", func() bool { return maps.Equal(b.table(), sumsOf(a)) })
		f.Heal()
		c.within(5*time.Second, "all are", func() bool { return maps.Equal(stuck.table(), sumsOf(a)) })
	})
}

// sumsOf is what others have to believe when only these routers have anything.
func sumsOf(routers ...*router) map[loads.Key]loads.Sum {
	sums := map[loads.Key]loads.Sum{}
	for _, r := range routers {
		for _, e := range r.publisher.Whole().Entries {
			s := sums[e.Key()]
			s.Key = e.Key()
			s.InFlight += e.InFlight
			sums[e.Key()] = s
		}
	}
	return sums
}

// Whatever happened, in the end each router has the sums of the others.
func TestRandomChanges(t *testing.T) {
	inBubble(t, 5, func(c *cluster) {
		seed := uint64(time.Now().UnixNano()) // the bubble's: always the same
		random := rand.New(rand.NewPCG(seed, 1))
		c.complete(time.Second)
		var faults []*simnet.Fault
		for i := range 10_000 {
			r := c.routers[random.IntN(5)]
			r.set(fmt.Sprintf("gpu-%d", random.IntN(40)), random.IntN(20))
			if i%100 == 0 {
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
			}
			if i%500 == 0 {
				x := random.IntN(5)
				hosts := c.net.Hosts()
				faults = append(faults, c.net.Split(simnet.Group{hosts[x]}, hosts.Except(hosts[x])))
			}
			if len(faults) > 0 && random.IntN(400) == 0 {
				faults[0].Heal()
				faults = faults[1:]
			}
		}
		for _, f := range faults {
			f.Heal()
		}
		c.complete(6 * time.Second)
		time.Sleep(time.Second)
		for i, r := range c.routers {
			others := append(append([]*router{}, c.routers[:i]...), c.routers[i+1:]...)
			if !maps.Equal(r.table(), sumsOf(others...)) {
				c.Errorf("%s has %v", r.name, r.table())
			}
		}
		for _, r := range c.routers {
			for i := range 40 {
				r.set(fmt.Sprintf("gpu-%d", i), 0)
			}
		}
		c.within(time.Second, "zero at rest", func() bool {
			for _, r := range c.routers {
				if len(r.table()) > 0 {
					return false
				}
			}
			return true
		})
	})
}

func TestReports(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		c.complete(time.Second)
		for i, r := range c.routers {
			probe := loads.Ready
			if i == 2 {
				probe = loads.Dead
			}
			r.publisher.Set(loads.Entry{ID: "gpu-0", Incarnation: 2, InFlight: i + 1, Probe: probe, Succeeded: i == 1})
			notify(r.changed)
		}
		time.Sleep(100 * time.Millisecond)
		for _, r := range c.routers {
			reports, complete := r.mesh.Reports(time.Now())
			got := reports[loads.Key{ID: "gpu-0", Incarnation: 2}]
			if !complete || len(got.Ready) != 2 || len(got.Dead) != 1 || got.Dead[0] != "r02" || got.InFlight != 6 || !got.Succeeded {
				c.Errorf("%s: %+v, complete %t", r.name, got, complete)
			}
		}
	})
}

// Each frame says which epoch its sender holds.
func TestVersionsTravelWithLoads(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.complete(time.Second)
		a, b := c.routers[0], c.routers[1]
		next, _ := epochAfter(c.T, a.history.Latest(), 1)
		a.history.Add(next)
		want := VersionOf(a.history.Latest())
		c.within(510*time.Millisecond, "the version is seen", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.versions["r00"] == want
		})
		synctest.Wait()
	})
}
