package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func holds(routers []*router, origin, key, value string) bool {
	return !slices.ContainsFunc(routers, func(r *router) bool {
		return !slices.ContainsFunc(r.Facts(), func(f Fact) bool {
			return f.Origin == origin && f.Key == key && string(f.Value) == value
		})
	})
}

func TestFactReachesAll(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(30)
		from := routers[17]
		for _, value := range []string{"http://gpu-1:8000", "http://gpu-2:8000"} { // the second one replaces the first
			if err := from.Announce("backend", []byte(value), time.Minute); err != nil {
				t.Fatal(err)
			}
			took := w.within(time.Second, "the fact is everywhere", func() bool { return holds(routers, from.name, "backend", value) })
			t.Logf("30 routers: %s", took)
		}
		time.Sleep(time.Minute)
		for _, r := range routers {
			if facts := r.Facts(); len(facts) != 0 {
				t.Errorf("%s holds %v after their time", r.name, facts)
			}
		}
	})
}

func TestManyFacts(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(10)
		for i := range 100 {
			if err := routers[i%10].Announce(fmt.Sprint("key-", i), []byte("value"), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		took := w.within(5*time.Second, "all are everywhere", func() bool {
			return !slices.ContainsFunc(routers, func(r *router) bool { return len(r.Facts()) != 100 })
		})
		t.Logf("100 facts, 10 routers: %s", took)

		w.net.Host("late")
		late := w.start("late")
		w.within(3*time.Second, "one that comes later has them", func() bool { return len(late.Facts()) == 100 })

		time.Sleep(10 * time.Second)
		for _, r := range routers {
			if _, queued := r.Health(); queued > 0 {
				t.Errorf("%s still tells %d facts", r.name, queued)
			}
		}
	})
}

func TestFactsAcrossPartition(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(6)
		left, right := routers[:3], routers[3:]
		fault := w.net.Split(hosts(left), hosts(right))
		time.Sleep(30 * time.Second)
		if err := routers[0].Announce("k", []byte("v"), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if holds(right[:1], routers[0].name, "k", "v") {
			t.Fatal("the partition leaks")
		}
		fault.Heal()
		w.within(w.cfg.Rejoin+5*time.Second, "the fact is everywhere", func() bool { return holds(routers, routers[0].name, "k", "v") })
	})
}

func TestFactsOfTheDead(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(3)
		dead, rest := routers[2], routers[:2]
		if err := dead.Announce("k", []byte("v"), time.Hour); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "it is everywhere", func() bool { return holds(routers, dead.name, "k", "v") })
		dead.host.Kill()
		dead.stop()
		time.Sleep(30 * time.Second)
		if !holds(rest, dead.name, "k", "v") {
			t.Error("the fact went with its router at once")
		}
		w.within(2*time.Minute, "it is forgotten", func() bool { return len(rest[0].Facts())+len(rest[1].Facts()) == 0 })
		time.Sleep(5 * time.Minute)
		if len(rest[0].Facts())+len(rest[1].Facts()) != 0 {
			t.Error("it came back")
		}
	})
}

func TestAnnounceRefuses(t *testing.T) {
	f := newFacts("r")
	now := time.Now()
	for _, c := range []struct {
		size int
		ttl  time.Duration
		want error
	}{
		{10, time.Minute, nil},
		{1000, time.Minute, nil},
		{factLimit, time.Minute, ErrFactTooLarge},
		{10, 0, ErrFactTTL},
		{10, 25 * time.Hour, ErrFactTTL},
	} {
		if _, err := f.announce("key", make([]byte, c.size), c.ttl, now); !errors.Is(err, c.want) {
			t.Errorf("%d bytes for %s: %v, want %v", c.size, c.ttl, err, c.want)
		}
	}
	for i := range factsOfOne - 1 {
		if _, err := f.announce(fmt.Sprint(i), nil, time.Minute, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.announce("one more", nil, time.Minute, now); !errors.Is(err, ErrFactsFull) {
		t.Errorf("one more: %v", err)
	}
	if _, err := f.announce("key", nil, time.Minute, now); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
}

// TestFactsFull lets many routers announce as much as they may.
func TestFactsFull(t *testing.T) {
	f := newFacts("r")
	now := time.Now()
	refused := 0
	for origin := range 10 {
		for key := range factsOfOne {
			r := rumour{origin: fmt.Sprint(origin), key: fmt.Sprint(key), sequence: uint64(key + 1), ttl: time.Minute}
			if _, err := f.merge(r, now); err != nil {
				refused++
			}
		}
	}
	if want := 10*factsOfOne - factsMax; len(f.entries) != factsMax || refused != want {
		t.Errorf("holds %d, refused %d; want %d and %d", len(f.entries), refused, factsMax, want)
	}
	for range int(graveTime/time.Minute) + 2 {
		now = now.Add(time.Minute)
		f.sweep(now.Add(-time.Minute), now, func(string) bool { return true })
	}
	if len(f.entries)+len(f.count)+len(f.gone) != 0 {
		t.Errorf("%d facts, %d origins, %d gone are left", len(f.entries), len(f.count), len(f.gone))
	}
}

// TestMergeOrder merges the same messages in two orders, some of them twice.
func TestMergeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		messages := rapid.SliceOf(rapid.Custom(func(t *rapid.T) rumour {
			seq := rapid.Uint64Range(1, 6).Draw(t, "sequence")
			return rumour{ // an origin says one thing under one sequence
				origin: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "origin"), key: "k",
				sequence: seq, ttl: time.Duration(seq%3+1) * time.Minute, value: fmt.Append(nil, seq),
			}
		})).Draw(t, "messages")
		one, two := newFacts("me"), newFacts("me")
		for _, r := range messages {
			_, _ = one.merge(r, now)
		}
		for _, r := range append(rapid.Permutation(messages).Draw(t, "order"), rapid.Permutation(messages).Draw(t, "again")...) {
			_, _ = two.merge(r, now)
		}
		if diff := cmp.Diff(one.list(now), two.list(now)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOlderFactStaysAway lets a short fact replace a long one, and the long one come again afterwards.
func TestOlderFactStaysAway(t *testing.T) {
	f := newFacts("me")
	now := time.Unix(1000, 0)
	long := rumour{origin: "a", key: "k", sequence: 1, ttl: time.Hour, value: []byte("long")}
	short := rumour{origin: "a", key: "k", sequence: 2, ttl: time.Second, value: []byte("short")}
	for _, r := range []rumour{long, short} {
		if news, err := f.merge(r, now); !news || err != nil {
			t.Fatalf("%s: %v %v", r.value, news, err)
		}
	}
	now = now.Add(time.Minute)
	f.sweep(now.Add(-time.Second), now, func(string) bool { return true })
	if news, _ := f.merge(long, now); news || len(f.list(now)) != 0 {
		t.Errorf("the older fact is back: %v", f.list(now))
	}
}

// TestFactsThatCouldNotBePassedOn are not taken in: the next router would hear another fact.
func TestFactsThatCouldNotBePassedOn(t *testing.T) {
	header := len(rumour{origin: "a", key: "k", ttl: time.Minute}.encode())
	name := strings.Repeat("n", nameLimit)
	form := func(origin string, value int) []byte {
		msg := append([]byte{factVersion, byte(len(origin))}, origin...)
		msg = append(msg, 1, 'k', 0)
		msg = binary.AppendUvarint(msg, uint64(time.Minute.Milliseconds()))
		return append(msg, make([]byte, value)...)
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		ok   bool
	}{
		{"largest", form("a", factLimit-header), true},
		{"too large", form("a", factLimit-header+1), false},
		{"longest origin", form(name, 1), true},
		{"origin too long", form(name+"n", 1), false},
	} {
		if _, err := decodeRumour(tt.msg); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		state := binary.AppendUvarint([]byte{stateVersion}, uint64(len(tt.msg)))
		heard := 0
		_ = decodeState(append(state, tt.msg...), func(msg []byte) {
			if _, err := decodeRumour(msg); err == nil {
				heard++
			}
		})
		if (heard == 1) != tt.ok {
			t.Errorf("%s: %d facts of a state", tt.name, heard)
		}
	}
}
