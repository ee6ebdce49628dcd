package peer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/places"
)

// placer is a router that places prompts, numbered by Written, and remembers what it hears.
type placer struct {
	*router
	slow time.Duration // what the picker takes for each batch

	mu      sync.Mutex // guards what follows
	placed  int
	heard   map[string][]int64 // numbers, by origin
	batches map[string][]time.Time
	inside  map[string]bool // OnPlaces has not returned
}

// withPlacers runs a test with routers that keep as many placements.
func withPlacers(t *testing.T, n, capacity int, test func(c *cluster, placers []*placer)) {
	t.Helper()
	inBubble(t, 0, func(c *cluster) {
		var placers []*placer
		for i := range n {
			placers = append(placers, c.placer(fmt.Sprintf("r%02d", i), capacity))
		}
		c.know(c.routers...)
		c.complete(time.Second)
		test(c, placers)
	})
}

func (c *cluster) placer(name string, capacity int) *placer {
	p := &placer{router: c.add(name), heard: map[string][]int64{}, batches: map[string][]time.Time{}, inside: map[string]bool{}}
	p.places, p.onPlaces = places.NewLog(capacity), p.hear
	p.start()
	return p
}

func (p *placer) place(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		p.places.Add([]places.Placement{{
			Pin: uint64(p.placed) << 40, ID: fmt.Sprintf("%s-gpu-%d", p.name, p.placed%7), Incarnation: 3, Depth: p.placed % 1000, Written: int64(p.placed),
		}})
		p.placed++
	}
	notify(p.changed)
}

func (p *placer) hear(origin string, ps []places.Placement, _ time.Time) {
	p.mu.Lock()
	if p.inside[origin] {
		p.cluster.Errorf("%s is told of placements of %s while it is told of others", p.name, origin)
	}
	p.inside[origin] = true
	p.batches[origin] = append(p.batches[origin], time.Now())
	p.mu.Unlock()
	time.Sleep(p.slow)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside[origin] = false
	for _, got := range ps {
		n := got.Written
		want := places.Placement{Pin: uint64(n) << 40, ID: fmt.Sprintf("%s-gpu-%d", origin, n%7), Incarnation: 3, Depth: int(n % 1000), Written: n}
		if got != want {
			p.cluster.Errorf("%s heard %+v of %s", p.name, got, origin)
		}
		p.heard[origin] = append(p.heard[origin], n)
	}
}

// has waits until p has heard exactly the placements from the first to before the end.
func (p *placer) has(within time.Duration, origin *placer, first, end int) time.Duration {
	p.cluster.Helper()
	took := p.cluster.within(within, fmt.Sprintf("%s hears %s up to %d", p.name, origin.name, end), func() bool {
		heard := p.numbers(origin)
		return len(heard) > 0 && heard[len(heard)-1] == int64(end-1)
	})
	if !slices.Equal(p.numbers(origin), upTo(first, end)) {
		p.cluster.Errorf("%s heard other placements of %s than %d to %d, or not in order", p.name, origin.name, first, end)
	}
	return took
}

func (p *placer) numbers(origin *placer) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard[origin.name])
}

func upTo(first, end int) (ns []int64) {
	for n := first; n < end; n++ {
		ns = append(ns, int64(n))
	}
	return ns
}

func TestPlacesArriveOnceInOrder(t *testing.T) {
	withPlacers(t, 3, 3000, func(c *cluster, placers []*placer) {
		for round := range 50 {
			for i, p := range placers {
				p.place(round + i + 1)
				p.set("gpu-0", round)
			}
			time.Sleep(7 * time.Millisecond)
		}
		for _, p := range placers {
			for _, origin := range placers {
				if p != origin {
					p.has(100*time.Millisecond, origin, 0, origin.placed)
				}
			}
		}
		// Placements need no change of loads to be told.
		placers[0].place(1)
		if took := placers[1].has(time.Second, placers[0], 0, placers[0].placed); took > 30*time.Millisecond {
			c.Errorf("placements alone took %v", took)
		}
		time.Sleep(2 * time.Second)
		counts := placers[0].mesh.Counts()
		sent, got := 2*placers[0].placed, placers[1].placed+placers[2].placed
		if counts.PlacesSent != uint64(sent) || counts.PlacesGot != uint64(got) {
			c.Errorf("%d sent and %d got, want %d and %d", counts.PlacesSent, counts.PlacesGot, sent, got)
		}
	})
}

// A newcomer is told what is kept, in messages of bounded size, one a gap.
func TestNewcomerHearsWhatIsKept(t *testing.T) {
	const kept = 3*batchMost + 100
	withPlacers(t, 2, kept, func(c *cluster, placers []*placer) {
		old := placers[0]
		old.place(2 * kept)
		time.Sleep(time.Second)
		for _, name := range []string{"r00-before", "r02"} { // one dials, the other is dialled
			p := c.placer(name, kept)
			c.know(c.routers...)
			for i := range 200 { // changes of loads do not make more batches, and go out in between
				old.set("gpu-0", 1+i)
				time.Sleep(time.Millisecond)
			}
			p.has(time.Second, old, kept, 2*kept)
			c.within(2*gapLeast, "the last change arrives", func() bool { return p.inflight() == 200 })
			p.mu.Lock()
			batches := p.batches[old.name]
			p.mu.Unlock()
			if len(batches) != 4 {
				c.Errorf("%d messages", len(batches))
			}
			for i := 1; i < len(batches); i++ {
				if gap := batches[i].Sub(batches[i-1]); gap < gapLeast-2*time.Millisecond || gap > 3*gapLeast {
					c.Errorf("a batch %v after the one before", gap)
				}
			}
			c.Logf("%d placements in %v", kept, batches[len(batches)-1].Sub(batches[0]))
		}
	})
}

// Placements make no more frames than changes of loads do.
func TestPlacesKeepTheGap(t *testing.T) {
	withPlacers(t, 2, 5000, func(c *cluster, placers []*placer) {
		a := placers[0]
		before := a.mesh.Counts().FramesSent
		for i := range 1000 {
			a.place(1)
			a.set("gpu-0", i)
			time.Sleep(time.Millisecond)
		}
		if n := a.mesh.Counts().FramesSent - before; n < 45 || n > 55 {
			c.Errorf("%d frames in a second, want 50", n)
		}
		placers[1].has(time.Second, a, 0, 1000)
	})
}

// A broken stream leads to a repeat of what is kept, never to another order, also when
// the picker still works on what came over the old one.
func TestReconnectRepeatsInOrder(t *testing.T) {
	const kept = 2*batchMost + 50
	for _, slow := range []time.Duration{0, 3 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			withPlacers(t, 2, kept, func(c *cluster, placers []*placer) {
				dialler, origin := placers[0], placers[1]
				dialler.slow = slow
				origin.place(kept + 10)
				var opened []uint64
				for range 5 {
					time.Sleep(1200 * time.Millisecond)
					dialler.breakStream()
					opened = append(opened, dialler.mesh.Counts().Opened)
					origin.place(5)
				}
				if slices.Max(opened) < 3 {
					c.Errorf("streams opened: %v", opened)
				}
				c.within(30*time.Second, "all is heard", func() bool {
					heard := dialler.numbers(origin)
					return len(heard) > 0 && heard[len(heard)-1] == int64(origin.placed-1)
				})
				heard, repeats := dialler.numbers(origin), 0
				for i := 1; i < len(heard); i++ {
					if heard[i] > heard[i-1] {
						continue
					}
					repeats++
					if oldest := heard[i]; oldest > int64(origin.placed-kept) {
						c.Errorf("after %d comes %d", heard[i-1], heard[i])
					}
				}
				if repeats == 0 || repeats > 5 {
					c.Errorf("%d repeats", repeats)
				}
				if tail := upTo(origin.placed-kept, origin.placed); !slices.Equal(heard[max(0, len(heard)-kept):], tail) {
					c.Error("the last of it is not what the origin kept last")
				}
				synctest.Wait()
				dialler.mesh.mu.Lock()
				defer dialler.mesh.mu.Unlock()
				if n := len(dialler.mesh.hearing); n != 1 {
					c.Errorf("%d receivers are remembered for one link", n)
				}
			})
		})
	}
}

// Loads flow between a router that tells placements and one that knows of none.
func TestPlacesToWhoDoesNotListen(t *testing.T) {
	withPlacers(t, 1, 10, func(c *cluster, placers []*placer) {
		plain := c.add("r01")
		plain.start()
		c.know(c.routers...)
		c.complete(time.Second)
		placers[0].place(5)
		placers[0].set("gpu-0", 2)
		plain.set("gpu-0", 3)
		c.within(time.Second, "loads arrive", func() bool { return plain.inflight() == 2 && placers[0].inflight() == 3 })
		if got := plain.mesh.Counts(); got.PlacesGot != 5 || got.PlacesSent != 0 {
			c.Errorf("%+v", got)
		}
	})
}

// What no log gives out ends the stream, and nothing of the message is taken.
func TestMalformedPlacesEndTheStream(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		r := c.routers[0]
		r.mesh.SetMembers(map[string]string{"a": "a:7000"})
		client, release, err := r.client.acquire(r.address)
		if err != nil {
			c.Fatal(err)
		}
		defer release()
		s, err := client.Loads(Identity{Name: "a", Label: r.label, Cluster: r.identity().Cluster}.introduce(c.Context()))
		if err != nil {
			c.Fatal(err)
		}
		good := &peerpb.Places{Backend: []string{"gpu-0"}, Incarnation: []uint64{1}, Pin: []uint64{9}, Index: []uint32{0}, Depth: []uint32{1}, Written: []uint64{1}}
		bad := &peerpb.Places{Backend: []string{"gpu-0"}, Incarnation: []uint64{1}, Pin: []uint64{9}, Index: []uint32{1}, Depth: []uint32{1}, Written: []uint64{1}}
		for _, p := range []*peerpb.Places{good, bad} {
			if err := s.Send(&peerpb.LoadsMessage{Places: p}); err != nil {
				c.Fatal(err)
			}
		}
		for err == nil {
			_, err = s.Recv()
		}
		if !strings.Contains(err.Error(), errPlaces.Error()) {
			c.Error(err)
		}
		if n := r.mesh.Counts().PlacesGot; n != 2 {
			c.Errorf("got %d placements: the stream ended before the malformed message", n)
		}
	})
}
