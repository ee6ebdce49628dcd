package consensus

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGreetingGolden(t *testing.T) {
	g := greeting{Cluster: "X", Generation: 2, ID: "s1", Target: "s2"}
	want := "WRRAFT\x01\x00\x15" + "\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x01X" + "\x00\x02s1" + "\x00\x02s2" + "\x00\x00"
	if got := string(g.encode()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got, err := readGreeting(iotest.OneByteReader(strings.NewReader(want + "raft's bytes")))
	if err != nil || got != g {
		t.Errorf("%v %s", err, cmp.Diff(g, got))
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting{Cluster: "X", Generation: 2, ID: "s1", Target: "s2", Refused: "no"}.encode())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("WRRAFT\x01\xff\xff"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := readGreeting(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if len(g.Cluster) > handshakeLimit/5 || len(g.ID) > handshakeLimit/5 || len(g.Target) > handshakeLimit/5 || len(g.Refused) > handshakeLimit/5 {
			return // longer than what is ever sent
		}
		again, err := readGreeting(bytes.NewReader(g.encode()))
		if err != nil || again != g {
			t.Errorf("%+v became %+v (%v)", g, again, err)
		}
	})
}

func TestMismatch(t *testing.T) {
	mine := greeting{Cluster: "X", Generation: 2, ID: "s1"}
	fits := greeting{Cluster: "X", Generation: 2, ID: "s2", Target: "s1"}
	tests := []struct {
		name   string
		mine   greeting
		change func(*greeting)
		want   string
	}{
		{"fits", mine, func(*greeting) {}, ""},
		{"bound to none", greeting{ID: "s1"}, func(*greeting) {}, "server s1 belongs to no cluster"},
		{"another cluster", mine, func(g *greeting) { g.Cluster = "Y" }, "belongs to cluster X, not to \"Y\""},
		{"no cluster", mine, func(g *greeting) { g.Cluster = "" }, "belongs to cluster X, not to \"\""},
		{"an earlier generation", mine, func(g *greeting) { g.Generation = 1 }, "of generation 2 of cluster X, not 1"},
		{"a later generation", mine, func(g *greeting) { g.Generation = 3 }, "of generation 2 of cluster X, not 3"},
		{"for another server", mine, func(g *greeting) { g.Target = "s9" }, "this is server s1, not \"s9\""},
		{"another server answered", greeting{Cluster: "X", Generation: 2, ID: "s1", Target: "s3"}, func(*greeting) {}, "server s2 answered for s3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			theirs := fits
			test.change(&theirs)
			if got := test.mine.mismatch(theirs); !strings.Contains(got, test.want) || (test.want == "" && got != "") {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// A peer that says nothing is given up in bounded time.
func TestGreetTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		began := time.Now()
		err := greet(near, greeting{Cluster: "X", ID: "s1", Target: "s2"})
		if took := time.Since(began); err == nil || took > handshakeTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestRefusalSaysWhetherToLook(t *testing.T) {
	for generation, newer := range map[uint64]bool{1: false, 2: false, 3: true} {
		near, far := net.Pipe()
		go func() {
			_, _ = readGreeting(far)
			_, _ = far.Write(greeting{Cluster: "X", Generation: generation, ID: "s2", Target: "s1", Refused: "no"}.encode())
		}()
		var no *refusal
		err := greet(near, greeting{Cluster: "X", Generation: 2, ID: "s1", Target: "s2"})
		if !errors.As(err, &no) || no.newer != newer || no.reason != "no" {
			t.Errorf("generation %d: %v", generation, err)
		}
		near.Close()
		far.Close()
	}
}
