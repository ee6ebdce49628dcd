package gossip

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestForms fixes what is on the wire: routers of two releases meet during an upgrade.
func TestForms(t *testing.T) {
	meta := Meta{
		Router: "gpu-router-1", Server: "0011223344556677", Cluster: "8899aabbccddeeff", Generation: 2, Epoch: 300,
		Digest: 0x0102030405060708, Voter: true, Leaving: true, Expect: 3,
	}
	fact := rumour{origin: "r-1", key: "dns:models", sequence: 300, ttl: time.Minute, value: []byte("v")}
	for _, c := range []struct{ name, got, want string }{
		{"meta", hex.EncodeToString(meta.encode()), "010303" + "02" + "ac02" + "0102030405060708" +
			"0c" + "6770752d726f757465722d31" + "10" + "30303131323233333434353536363737" + "10" + "38383939616162626363646465656666"},
		{"fact", hex.EncodeToString(fact.encode()), "01" + "03" + "722d31" + "0a" + "646e733a6d6f64656c73" + "ac02" + "e0d403" + "76"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", c.name, c.got, c.want)
		}
	}
	if got, err := decodeMeta(append(meta.encode(), "of a later release"...)); err != nil || got != meta {
		t.Errorf("with more behind it: %+v, %v", got, err)
	}
	if got, err := decodeRumour(fact.encode()); err != nil || !cmp.Equal(got, fact, cmp.AllowUnexported(rumour{})) {
		t.Errorf("fact: %+v, %v", got, err)
	}
}

func TestMetaLimits(t *testing.T) {
	long := Meta{
		Router: strings.Repeat("ä", 100), Server: strings.Repeat("s", 100), Cluster: strings.Repeat("c", 100),
		Generation: math.MaxUint64, Epoch: math.MaxUint64, Digest: math.MaxUint64, Expect: 1000,
	}
	buf := long.encode()
	if len(buf) >= 200 {
		t.Errorf("%d bytes", len(buf))
	}
	got, err := decodeMeta(buf)
	if err != nil || got.Router != strings.Repeat("ä", 32) || len(got.Server) != idLimit || got.Expect != 255 {
		t.Errorf("%+v: %v", got, err)
	}
	odd := Meta{Router: "x" + strings.Repeat("ä", 100)} // the limit is within a rune
	if got, _ := decodeMeta(odd.encode()); got.Router != "x"+strings.Repeat("ä", 31) {
		t.Errorf("%q", got.Router)
	}
}

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Meta{
			Router: rapid.StringN(0, 16, routerLimit).Draw(t, "router"), Server: rapid.StringN(0, 8, idLimit).Draw(t, "server"),
			Cluster: rapid.StringN(0, 8, idLimit).Draw(t, "cluster"), Generation: rapid.Uint64().Draw(t, "generation"),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Digest: rapid.Uint64().Draw(t, "digest"), Voter: rapid.Bool().Draw(t, "voter"),
			Leaving: rapid.Bool().Draw(t, "leaving"), Expect: rapid.IntRange(0, 255).Draw(t, "expect"),
		}
		buf := want.encode()
		got, err := decodeMeta(buf)
		if err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
		if cut := rapid.IntRange(0, len(buf)-1).Draw(t, "cut"); cut < len(buf) {
			if got, err := decodeMeta(buf[:cut]); err == nil {
				t.Fatalf("cut at %d: %+v", cut, got)
			}
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(Meta{Router: "r", Expect: 3, Voter: true}.encode())
	f.Add([]byte{metaVersion, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, buf []byte) {
		meta, err := decodeMeta(buf)
		if err != nil {
			return
		}
		if again, err := decodeMeta(meta.encode()); err != nil || len(meta.Router) <= routerLimit && len(meta.Server) <= idLimit && len(meta.Cluster) <= idLimit && again != meta {
			t.Errorf("%+v became %+v: %v", meta, again, err)
		}
	})
}

func FuzzFacts(f *testing.F) {
	one := newFacts("one")
	msg, err := one.announce("k", []byte("v"), time.Minute, time.Unix(0, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one.state(time.Unix(0, 0)))
	f.Add(msg)
	f.Fuzz(func(t *testing.T, buf []byte) {
		now := time.Unix(0, 0)
		table := newFacts("me")
		take := func(msg []byte) {
			r, err := decodeRumour(msg)
			if err != nil {
				return
			}
			if r.ttl < 0 || r.ttl > ttlLimit {
				t.Fatalf("ttl %s", r.ttl)
			}
			_, _ = table.merge(r, now)
		}
		take(buf)
		_ = decodeState(buf, take)
		other := newFacts("other")
		err := decodeState(table.state(now), func(msg []byte) {
			if r, err := decodeRumour(msg); err == nil {
				_, _ = other.merge(r, now)
			}
		})
		if diff := cmp.Diff(table.list(now), other.list(now)); err == nil && diff != "" {
			t.Error(diff)
		}
	})
}
