package peer

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/sim/simnet"
)

// change is the i-th of a series that any epoch takes.
func change(i int) routing.Change {
	return routing.Change{
		PutEndpoints: []routing.Endpoint{{
			Name: "demo", Variants: []routing.Variant{{Name: "v", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}}},
		}},
		PutBackends: []routing.Backend{{
			ID: fmt.Sprintf("gpu-%d", i%20), URL: fmt.Sprintf("http://10.0.0.%d:%d", i%250, 8000+i), Endpoint: "demo", Variant: "v",
			Weight: float64(1 + i%7), State: routing.Active,
		}},
	}
}

func epochAfter(t *testing.T, e *routing.Epoch, i int) (*routing.Epoch, Step) {
	t.Helper()
	next, err := e.Apply(change(i))
	if err != nil {
		t.Fatal(err)
	}
	return next, Step{Version: VersionOf(next), Change: change(i), By: "test", At: time.UnixMilli(int64(i))}
}

// voters makes the first n routers the sources of the others, each with what it has.
func (c *cluster) voters(n int) {
	var sources []Source
	for _, r := range c.routers[:n] {
		sources = append(sources, Source{Name: r.name, Address: r.address, Version: VersionOf(r.history.Latest()), Voter: true})
	}
	for _, r := range c.routers[n:] {
		r.mu.Lock()
		r.sources = sources
		r.mu.Unlock()
	}
}

// commit gives an epoch to the first n routers, as the agreement would.
func (c *cluster) commit(n, i int) {
	e, step := epochAfter(c.T, c.routers[0].history.Latest(), i)
	for _, r := range c.routers[:n] {
		r.history.Add(e, step)
	}
}

// preferred is the source that the router follows when none has failed.
func (r *router) preferred() Source {
	c := newChoice(r.name)
	s, _ := c.next(r.onSources(), r.version(), time.Now())
	return s
}

func (r *router) version() Version { return VersionOf(r.history.Latest()) }

func TestFollow(t *testing.T) {
	inBubble(t, 4, func(c *cluster) {
		c.voters(3)
		follower := c.routers[3]
		time.Sleep(200 * time.Millisecond)
		for i := range 10 {
			c.commit(3, i)
			c.within(10*time.Millisecond, "it is there", func() bool { return follower.version() == c.routers[0].version() })
			time.Sleep(500 * time.Millisecond)
		}
		if got := follower.history.Steps(); len(got) != 10 || got[9].By != "test" || !got[9].At.Equal(time.UnixMilli(9)) {
			c.Errorf("the steps did not come along: %v", got)
		}
	})
}

// Epochs come fast while sources, followers and links break at random.
func TestThousandEpochs(t *testing.T) {
	inBubble(t, 6, func(c *cluster) {
		random := rand.New(rand.NewPCG(7, 7))
		hosts := c.net.Hosts()
		var fault *simnet.Fault
		for i := range 1000 {
			c.commit(3, i)
			c.voters(3)
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			if i%40 == 0 {
				if fault != nil {
					fault.Heal()
				}
				x := random.IntN(len(hosts))
				fault = c.net.Split(simnet.Group{hosts[x]}, hosts.Except(hosts[x]))
			}
		}
		fault.Heal()
		c.within(5*time.Second, "all have the last", func() bool {
			return !slices.ContainsFunc(c.routers, func(r *router) bool { return r.version() != c.routers[0].version() })
		})
		for _, r := range c.routers[3:] {
			if !slices.IsSortedFunc(r.epochs, Version.Compare) || len(slices.Compact(slices.Clone(r.epochs))) != len(r.epochs) {
				c.Errorf("%s went back, or took one twice: %v", r.name, r.epochs)
			}
			if len(r.mismatches) > 0 {
				c.Errorf("%s: %v", r.name, r.mismatches)
			}
			c.Logf("%s took %d messages", r.name, len(r.epochs))
		}
	})
}

func TestFollowersSpread(t *testing.T) {
	var sources []Source
	for _, name := range []string{"a", "b", "c"} {
		sources = append(sources, Source{Name: name, Voter: true})
	}
	sources = append(sources, Source{Name: "follower"})
	took := map[string]int{}
	for i := range 300 {
		c := newChoice(fmt.Sprint("r", i))
		s, fresh := c.next(sources, Version{}, time.Now())
		if again, _ := c.next(sources, Version{}, time.Now()); again != s || !fresh {
			t.Fatal("the choice moves")
		}
		took[s.Name]++
	}
	if len(took) != 3 || took["a"] < 60 || took["b"] < 60 || took["c"] < 60 {
		t.Errorf("%v", took)
	}
}

func TestSourceDies(t *testing.T) {
	inBubble(t, 4, func(c *cluster) {
		c.voters(3)
		c.commit(3, 1)
		follower := c.routers[3]
		c.within(time.Second, "followed", func() bool { return follower.version() == c.routers[0].version() })
		first := follower.preferred()
		dead := slices.IndexFunc(c.routers, func(r *router) bool { return r.name == first.Name })
		c.routers[dead].kill()
		time.Sleep(10 * time.Millisecond)
		c.commit(3, 2)
		took := c.within(time.Second, "followed elsewhere", func() bool { return follower.version() == c.routers[(dead+1)%3].version() })
		if took > 50*time.Millisecond {
			c.Errorf("took %v", took)
		}
	})
}

// The source can be reached and has nothing, while others are ahead.
func TestSourceFallsBehind(t *testing.T) {
	inBubble(t, 4, func(c *cluster) {
		c.voters(3)
		follower := c.routers[3]
		time.Sleep(200 * time.Millisecond)
		stale := follower.preferred()
		e, step := epochAfter(c.T, c.routers[0].history.Latest(), 1)
		for _, r := range c.routers[:3] {
			if r.name != stale.Name {
				r.history.Add(e, step)
			}
		}
		c.voters(3)
		took := c.within(time.Second, "followed elsewhere", func() bool { return follower.version() == VersionOf(e) })
		if took < behindMost || took > 600*time.Millisecond {
			c.Errorf("took %v", took)
		}
	})
}

// A voter follows nobody as soon as its own log has the epochs: that is no event, and no failure of whom it followed.
func TestAVoterRests(t *testing.T) {
	var said strings.Builder
	f := NewFeed(FeedConfig{Log: slog.New(slog.NewTextHandler(&said, nil))})
	source := Source{Name: "a", Address: "h:1", Voter: true}
	err := f.choice.stay(source, nil, Version{}, time.Now())
	if f.left(t.Context(), source, err); err == nil || said.Len() > 0 || len(f.choice.avoid) > 0 {
		t.Errorf("%v; said %q, avoids %v", err, &said, f.choice.avoid)
	}
	err = f.choice.stay(source, []Source{{Name: "b", Address: "h:2", Voter: true}}, Version{}, time.Now())
	if f.left(t.Context(), source, err); err == nil || !strings.Contains(said.String(), "no longer a member") {
		t.Errorf("%v; said %q", err, &said)
	}
}

func TestSlowFollowerGetsTheNewest(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		c.voters(1)
		follower := c.routers[1]
		follower.slow = 5 * time.Second
		time.Sleep(200 * time.Millisecond)
		for i := range 3000 { // far more than the history and a window hold
			c.commit(1, i)
			time.Sleep(10 * time.Millisecond)
		}
		follower.mu.Lock()
		follower.slow = 0
		follower.mu.Unlock()
		c.within(10*time.Second, "the newest", func() bool { return follower.version() == c.routers[0].version() })
		c.Logf("%d messages for 3000 epochs", len(follower.epochs))
		if len(follower.mismatches) > 0 {
			c.Error(follower.mismatches)
		}
	})
}

// An epoch that is not the source's, by the same name, is reported and repaired.
func TestMismatchIsRepaired(t *testing.T) {
	planted := func(t *testing.T, e *routing.Epoch) *routing.Epoch {
		t.Helper()
		wrong, _ := epochAfter(t, e, 99)
		return wrong
	}
	t.Run("when the stream begins", func(t *testing.T) {
		inBubble(t, 2, func(c *cluster) {
			c.commit(1, 1)
			follower := c.routers[1]
			follower.history.Add(planted(c.T, follower.history.Latest()))
			c.voters(1)
			c.within(time.Second, "repaired", func() bool { return follower.version() == c.routers[0].version() })
			if len(follower.mismatches) != 1 || !strings.HasPrefix(follower.mismatches[0], "r00: ") {
				c.Errorf("%q", follower.mismatches)
			}
		})
	})
	t.Run("with the next step", func(t *testing.T) {
		inBubble(t, 2, func(c *cluster) {
			c.commit(1, 1)
			c.voters(1)
			follower := c.routers[1]
			c.within(time.Second, "followed", func() bool { return follower.version() == c.routers[0].version() })
			follower.history.mu.Lock()
			follower.history.latest = planted(c.T, routing.NewEpoch(1, 42))
			follower.history.mu.Unlock()
			time.Sleep(time.Second) // nothing is noticed by the feed alone
			c.commit(1, 2)
			c.within(time.Second, "repaired", func() bool { return follower.version() == c.routers[0].version() })
			if len(follower.mismatches) != 1 {
				c.Errorf("%q", follower.mismatches)
			}
		})
	})
	t.Run("when it is asked to", func(t *testing.T) {
		inBubble(t, 2, func(c *cluster) {
			c.commit(1, 1)
			c.voters(1)
			follower := c.routers[1]
			c.within(time.Second, "followed", func() bool { return follower.version() == c.routers[0].version() })
			follower.history.Add(planted(c.T, routing.NewEpoch(1, 42)))
			follower.feed.Refresh()
			c.within(time.Second, "repaired", func() bool { return follower.version() == c.routers[0].version() })
		})
	})
	t.Run("not from a follower", func(t *testing.T) {
		inBubble(t, 2, func(c *cluster) {
			c.commit(1, 1)
			follower := c.routers[1]
			follower.history.Add(planted(c.T, follower.history.Latest()))
			before := follower.version()
			c.voters(1)
			follower.mu.Lock()
			follower.sources = []Source{{Name: "r00", Address: "r00:7000"}}
			follower.mu.Unlock()
			c.within(time.Second, "reported", func() bool {
				follower.mu.Lock()
				defer follower.mu.Unlock()
				return len(follower.mismatches) > 0
			})
			if follower.version() != before {
				c.Error("it took the other's")
			}
		})
	})
}

// A source of an older generation, or behind, moves nobody back.
func TestNeverBack(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		follower := c.routers[1]
		ahead := routing.NewEpoch(2, 42)
		follower.history.Add(ahead)
		for i := range 5 {
			c.commit(1, i)
		}
		c.voters(1)
		follower.feed.Refresh()
		time.Sleep(2 * time.Second)
		if follower.version() != VersionOf(ahead) || len(follower.epochs) > 0 {
			c.Errorf("went from %s to %s", VersionOf(ahead), follower.version())
		}
		c.routers[0].history.Add(routing.NewEpoch(3, 42))
		c.within(time.Second, "a later generation is taken", func() bool { return follower.version().Generation == 3 })
	})
}

// Routers that know no epoch yet hold different secrets, and neither is wrong.
func TestNothingYet(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		for i, r := range c.routers {
			r.history.mu.Lock()
			r.history.latest = routing.NewEpoch(0, uint64(i))
			r.history.base = VersionOf(r.history.latest)
			r.history.mu.Unlock()
		}
		c.voters(1)
		c.routers[1].feed.Refresh()
		time.Sleep(2 * time.Second)
		if got := c.routers[1]; len(got.mismatches)+len(got.epochs) > 0 {
			c.Errorf("%v, %v", got.mismatches, got.epochs)
		}
		c.routers[0].history.Add(routing.NewEpoch(1, 7))
		c.within(time.Second, "the first epoch", func() bool { return c.routers[1].version().Generation == 1 })
	})
}

func TestHistory(t *testing.T) {
	e := routing.NewEpoch(1, 1)
	h := NewHistory(e)
	first := VersionOf(e)
	if h.Add(e) {
		t.Error("the same epoch is news")
	}
	changed := h.Changed()
	for i := range historySize + 10 {
		next, step := epochAfter(t, e, i)
		if !h.Add(next, step) {
			t.Fatal("a step is no news")
		}
		e = next
		if i < historySize {
			latest, steps, ok := h.Since(first)
			if !ok || len(steps) != i+1 || latest != e {
				t.Fatalf("after %d: %d steps, %t", i, len(steps), ok)
			}
		}
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was woken")
	}
	if _, _, ok := h.Since(first); ok || len(h.Steps()) != historySize {
		t.Errorf("%d steps", len(h.Steps()))
	}
	if _, steps, ok := h.Since(VersionOf(e)); !ok || len(steps) != 0 {
		t.Error("the newest has nothing after it")
	}
	wrong := VersionOf(e)
	wrong.Digest++
	if _, _, ok := h.Since(wrong); ok {
		t.Error("another content has steps")
	}
	// Steps that do not connect are of no use.
	two, _ := epochAfter(t, e, 1)
	three, step := epochAfter(t, two, 2)
	if !h.Add(three, step) || len(h.Steps()) != 0 || h.Latest() != three {
		t.Errorf("%d steps over a gap", len(h.Steps()))
	}
	if h.Add(two) {
		t.Error("it went back")
	}
}
