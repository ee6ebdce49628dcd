package routing

import (
	"testing"
	"time"
)

func (b *bench) rumour(id string, ejected, refused int) {
	b.SetPeers([]PeerLoad{{ID: id, Incarnation: 1, Ejected: ejected, Refused: refused}}, b.now)
}

// goesTo picks for the prompt and leaves nothing behind.
func (b *bench) goesTo() string {
	b.Helper()
	l := b.pick("x:1000")
	l.Release()
	return l.Backend.ID
}

func TestRumourNeedsWitnesses(t *testing.T) {
	for _, tt := range []struct {
		ejected, refused int
		believed         bool
	}{{0, 0, false}, {1, 0, false}, {2, 0, true}, {0, 1, true}, {1, 1, true}} {
		b, rank := homeFleet(t, 5)
		b.rumour(rank[0], tt.ejected, tt.refused)
		if away := b.goesTo() != rank[0]; away != tt.believed || b.load(rank[0]).Rumoured != tt.believed {
			t.Errorf("%+v: kept away %v, %+v", tt, away, b.load(rank[0]))
		}
		pl := b.place("x")
		if c := b.Explain(&pl, b.now)[0]; tt.believed && (c.Eligible || c.Reason != "rumoured") {
			t.Errorf("%+v", c)
		}
		if l := b.load(rank[0]); l.PeersEjected != tt.ejected+tt.refused || l.PeersRefused != tt.refused || l.Ejections != 0 {
			t.Errorf("%+v", l)
		}
		b.rumour(rank[0], 0, 0)
		if b.goesTo() != rank[0] {
			t.Error("kept away after the rumour ended")
		}
	}
}

// A success of one's own within 2 s is better evidence.
func TestOwnSuccessVetoes(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.report(Succeeded)
	b.now = b.now.Add(1900 * time.Millisecond)
	b.rumour(rank[0], 0, 1)
	if b.goesTo() != rank[0] || b.load(rank[0]).Rumoured {
		t.Error("believed in spite of a success")
	}
	b.report(Succeeded) // and it goes on
	b.now = b.now.Add(1900 * time.Millisecond)
	if b.goesTo() != rank[0] {
		t.Error("believed in spite of another success")
	}
	b.now = b.now.Add(200 * time.Millisecond)
	if b.goesTo() == rank[0] || !b.load(rank[0]).Rumoured {
		t.Error("not believed once the success is old")
	}
}

// A rumour that nobody takes back is tried out by one request at a time.
func TestRumourIsTriedOut(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.rumour(rank[0], 0, 1)
	b.now = b.now.Add(4 * time.Second)
	b.rumour(rank[0], 1, 1) // said again, which does not prolong it
	if b.goesTo() == rank[0] {
		t.Fatal("tried too early")
	}
	b.now = b.now.Add(time.Second)
	probe := b.pick("x:1000")
	if probe.Backend.ID != rank[0] {
		t.Fatal("not tried")
	}
	for range 10 {
		if b.goesTo() == rank[0] {
			t.Fatal("a second request beside the first")
		}
	}
	probe.Report(Succeeded, b.now)
	for range 10 {
		if b.goesTo() != rank[0] {
			t.Fatal("not trusted after a success")
		}
	}
	b.now = b.now.Add(3 * time.Second)
	// It fails now: this replica's own evidence takes over.
	b.report(Refused)
	if l := b.load(rank[0]); l.Ejections != 1 || b.goesTo() == rank[0] {
		t.Errorf("%+v", l)
	}
}

// Rumours and ejections together keep away one in five.
func TestFewAreRumoured(t *testing.T) {
	b := newBench(t, fleet(t, 10, Policy{Strategy: Random}))
	away := func() (n int) {
		for _, l := range b.Snapshot(b.now) {
			if l.Rumoured || l.Ejections > 0 {
				n++
			}
		}
		return n
	}
	for _, s := range b.Epoch().Backends() {
		b.rumour(s.ID, 0, 3)
	}
	if n := away(); n != 2 {
		t.Errorf("%d of 10 away, want 2", n)
	}
	for range 50 {
		b.report(Refused)
	}
	if n := away(); n != 2 {
		t.Errorf("%d of 10 away, want 2", n)
	}
	// As some return, others take their places, and all return in the end.
	for i, s := range b.Epoch().Backends() {
		b.rumour(s.ID, 0, 0)
		if n := away(); i < 8 && n != 2 || i == 9 && n != 0 {
			t.Errorf("%d away after %d returned", n, i+1)
		}
	}
}

// A server of its own that returns makes room for a rumour that had to wait.
func TestRumourWaitsForRoom(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.report(Refused)
	b.rumour(rank[1], 2, 0)
	if b.load(rank[1]).Rumoured {
		t.Error("two of five are away")
	}
	b.now = b.now.Add(5 * time.Second)
	b.report(Succeeded)
	b.SetPeers(nil, b.now)
	if !b.load(rank[1]).Rumoured {
		t.Error("the rumour was forgotten")
	}
}

// What a new epoch takes out of the group does not stay rumoured.
func TestRumourAndDrain(t *testing.T) {
	b, rank := homeFleet(t, 5)
	b.rumour(rank[0], 2, 0)
	b.SetEpoch(apply(t, b.Epoch(), Change{Drain: rank[:1]}))
	if b.load(rank[0]).Rumoured {
		t.Error("rumoured while it drains")
	}
	b.SetPeers(nil, b.now)
	if b.load(rank[0]).Rumoured {
		t.Error("rumoured again while it drains")
	}
	back := b.load(rank[0]).Backend
	back.State = Active
	b.SetEpoch(apply(t, b.Epoch(), Change{PutBackends: []Backend{back}}))
	b.SetPeers(nil, b.now)
	if !b.load(rank[0]).Rumoured {
		t.Error("the rumour was forgotten")
	}
}

// Three replicas: two find out, the third follows without a request of its own.
func TestRumourSpreads(t *testing.T) {
	all := newRouters(t, 3, fleet(t, 5, policy()))
	rank := all[0].ranking("x")
	for range 3 {
		all[0].report(Failed)
	}
	exchange(all)
	if all[2].goesTo() != rank[0] {
		t.Error("one witness was enough")
	}
	for range 3 {
		all[1].report(Failed)
	}
	exchange(all)
	if all[2].goesTo() == rank[0] {
		t.Error("two witnesses were not enough")
	}
	// One of them dies; its word dies with it.
	all[2].follow(all[2].heard.Drop(all[1].name))
	if all[2].goesTo() != rank[0] {
		t.Error("a dead witness is believed")
	}
}
