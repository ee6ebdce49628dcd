package routing

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing/prefix"
)

func text(s string) *prefix.Text { return &prefix.Text{Bytes: []byte(s)} }

func mustMap(tb testing.TB, e *Epoch, r *Request) Place {
	tb.Helper()
	pl, err := e.Map(r)
	if err != nil {
		tb.Fatal(err)
	}
	return pl
}

func TestMapErrors(t *testing.T) {
	e := fleet(t, 1, policy())
	if _, err := e.Map(&Request{Endpoint: "no"}); !errors.Is(err, ErrUnknownEndpoint) {
		t.Error(err)
	}
	if _, err := e.Map(&Request{Endpoint: "demo", Variant: "no"}); !errors.Is(err, ErrUnknownVariant) {
		t.Error(err)
	}
	empty := fleet(t, 2, policy(), func(b *Backend) { b.State = Joining })
	pl := mustMap(t, empty, &Request{Endpoint: "demo"})
	if pl.Home() != "" || len(pl.Ranking()) != 0 {
		t.Errorf("home %q without an active backend", pl.Home())
	}
}

func TestPlace(t *testing.T) {
	e := fleet(t, 5, policy())
	pl := mustMap(t, e, &Request{Endpoint: "demo", Text: text("hello"), Size: 4000})
	if pl.Epoch() != e || pl.Endpoint() != "demo" || pl.Variant() != "AllTraffic" || pl.Strategy() != PrefixAware || pl.Tokens() != 1000 {
		t.Errorf("%+v", pl)
	}
	if r := pl.Ranking(); len(r) != 5 || r[0].ID != pl.Home() {
		t.Errorf("home %s, ranking %v", pl.Home(), r)
	}
	if pl := mustMap(t, e, &Request{Endpoint: "demo", Text: text(strings.Repeat("x", 400))}); pl.Tokens() != 100 {
		t.Errorf("%d tokens without a size", pl.Tokens())
	}
	if pl := mustMap(t, e, &Request{Endpoint: "demo", Size: math.MaxInt}); pl.Tokens() != maxPromptTokens {
		t.Errorf("%d tokens of an endless prompt", pl.Tokens())
	}
}

// Row 41: who shares a text must also share endpoint, variant, adapter, tenant and
// salt to share a pin.
func TestPinsAreKeptApart(t *testing.T) {
	for _, p := range []Policy{policy(), {Strategy: PrefixAware, PrefixLength: 1024}} {
		build := func(salt uint64) *Epoch {
			return apply(t, NewEpoch(1, salt), Change{PutEndpoints: []Endpoint{
				{Name: "a", Variants: []Variant{{Name: "v", Weight: 1, Policy: p}, {Name: "w", Weight: 1, Policy: p}}},
				{Name: "b", Variants: []Variant{{Name: "v", Weight: 1, Policy: p}}},
			}})
		}
		e := build(1)
		base := Request{Endpoint: "a", Variant: "v", Text: text("hello")}
		seen := map[uint64]string{}
		add := func(name string, e *Epoch, f func(*Request)) {
			r := base
			f(&r)
			pl := mustMap(t, e, &r)
			if other, ok := seen[pl.Pin()]; ok {
				t.Errorf("%s has the pin of %s", name, other)
			}
			seen[pl.Pin()] = name
		}
		add("base", e, func(*Request) {})
		add("endpoint", e, func(r *Request) { r.Endpoint = "b" })
		add("variant", e, func(r *Request) { r.Variant = "w" })
		add("adapter", e, func(r *Request) { r.Adapter = "x" })
		add("tenant", e, func(r *Request) { r.Tenant = "x" })
		add("text", e, func(r *Request) { r.Text = text("hallo") })
		add("salt", build(2), func(*Request) {})
	}
}

// Row 42, as far as the map goes: the turns of a chat have one pin, chats that
// share a system prompt have different ones.
func TestChatsKeepTheirPin(t *testing.T) {
	e := fleet(t, 7, adaptive())
	system := strings.Repeat("You are helpful. ", 40)
	homes := map[string]bool{}
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"} {
		chat := system + "hello from " + name
		first := len(chat)
		pl := mustMap(t, e, &Request{Endpoint: "demo", Text: &prefix.Text{Bytes: []byte(chat), FirstUser: first}})
		homes[pl.Home()] = true
		for range 5 {
			chat += strings.Repeat(" and then some more", 50)
			next := mustMap(t, e, &Request{Endpoint: "demo", Text: &prefix.Text{Bytes: []byte(chat), FirstUser: first}})
			if next.Pin() != pl.Pin() || next.Home() != pl.Home() {
				t.Fatalf("%s wandered from %s to %s", name, pl.Home(), next.Home())
			}
		}
	}
	if len(homes) < 3 {
		t.Errorf("8 chats with one system prompt have %d homes", len(homes))
	}
}

func TestFixedReadsItsLengthOnly(t *testing.T) {
	e := fleet(t, 7, Policy{Strategy: PrefixAware, PrefixLength: 1024})
	pin := func(s string) uint64 {
		pl := mustMap(t, e, &Request{Endpoint: "demo", Text: text(s)})
		return pl.Pin()
	}
	begin := strings.Repeat("x", 1024)
	if pin(begin+"a") != pin(begin+"b") {
		t.Error("what follows the prefix changes the pin")
	}
	if pin(begin[1:]+"a") == pin(begin[1:]+"b") {
		t.Error("the last character of the prefix does not change the pin")
	}
}

// Two epochs that were built in different ways and have the same content rank alike.
func TestSameContentSameRanking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		weights := rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 1, 3}), n, n).Draw(rt, "weights")
		next := 0
		a := fleet(t, n, policy(), func(b *Backend) { b.Weight = weights[next]; next++ })
		b := apply(t, NewEpoch(1, 42), Change{
			PutEndpoints: a.Endpoints(), PutBackends: rapid.Permutation(a.Backends()).Draw(rt, "order"),
		})
		if a.Digest() != b.Digest() {
			rt.Fatal("digests differ")
		}
		r := &Request{Endpoint: "demo", Text: text(rapid.String().Draw(rt, "text"))}
		pa, pb := mustMap(t, a, r), mustMap(t, b, r)
		ra, rb := pa.Ranking(), pb.Ranking()
		for i := range ra {
			if ra[i].ID != rb[i].ID {
				rt.Fatalf("rank %d is %s and %s", i, ra[i].ID, rb[i].ID)
			}
		}
	})
}

func TestVariants(t *testing.T) {
	c := Change{PutEndpoints: []Endpoint{{Name: "demo", Variants: []Variant{
		{Name: "named", Policy: policy()}, {Name: "a", Weight: 1, Policy: policy()}, {Name: "b", Weight: 3, Policy: policy()},
	}}}}
	for i, variant := range []string{"a", "b", "named"} {
		b := backend(i)
		b.Variant = variant
		c.PutBackends = append(c.PutBackends, b)
	}
	e := apply(t, NewEpoch(1, 1), c)
	counts := map[string]int{}
	for i := range uint64(8000) {
		key := string(rune('a'+i%26)) + strings.Repeat("z", int(i/26))
		chat := &prefix.Text{Bytes: []byte(key + " and then"), FirstUser: len(key)}
		pl := mustMap(t, e, &Request{Endpoint: "demo", Text: chat})
		counts[pl.Variant()]++
		chat.Bytes = append(chat.Bytes, " some more"...)
		if next := mustMap(t, e, &Request{Endpoint: "demo", Text: chat}); next.Variant() != pl.Variant() {
			t.Fatal("a chat changed its variant")
		}
	}
	if share := float64(counts["b"]) / 8000; math.Abs(share-0.75) > 0.02 || counts["named"] != 0 {
		t.Errorf("shares %v", counts)
	}
	if pl := mustMap(t, e, &Request{Endpoint: "demo", Variant: "named"}); pl.Home() != "gpu-2" {
		t.Errorf("by name: %s", pl.Home())
	}
	// Without a server in it, a variant is passed over.
	e = apply(t, e, Change{Drain: []string{"gpu-1"}})
	for range 50 {
		if pl := mustMap(t, e, &Request{Endpoint: "demo", Text: text("x")}); pl.Variant() != "a" {
			t.Fatalf("variant %q", pl.Variant())
		}
	}
	e = apply(t, e, Change{Drain: []string{"gpu-0"}})
	if pl := mustMap(t, e, &Request{Endpoint: "demo"}); pl.Home() != "" || pl.Variant() == "named" {
		t.Errorf("nobody there: %q %q", pl.Variant(), pl.Home())
	}
}
