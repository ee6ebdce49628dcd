package gossip

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"
)

func key(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

// keyFileOf writes keys to a file of its own.
func keyFileOf(t *testing.T, keys ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, name, keys...)
	return name
}

// writeKeys gives each version of a file another time, whatever the file system's clock is.
func writeKeys(t *testing.T, name string, keys ...string) {
	t.Helper()
	at := time.Unix(1_000_000, 0)
	if info, err := os.Stat(name); err == nil {
		at = info.ModTime().Add(time.Second)
	}
	if err := os.WriteFile(name, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestParseKeys(t *testing.T) {
	for _, c := range []struct {
		text string
		keys int
		want string
	}{
		{"# of 2026\n" + key(1) + "\n\n  " + key(2) + "  \n", 2, ""},
		{base64.StdEncoding.EncodeToString(make([]byte, 16)), 1, ""},
		{base64.StdEncoding.EncodeToString(make([]byte, 24)), 1, ""},
		{"", 0, "gossip.key_file: holds no key"},
		{key(1) + "\n" + base64.StdEncoding.EncodeToString(make([]byte, 17)), 0, "gossip.key_file: line 2"},
		{"secret!", 0, "gossip.key_file: line 1"},
	} {
		keys, err := parseKeys([]byte(c.text))
		if len(keys) != c.keys || (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %d keys, %v", c.text, len(keys), err)
		}
		if err != nil && strings.Contains(err.Error(), "secret!") {
			t.Errorf("the error shows the line: %v", err)
		}
	}
}

// TestInstall changes a ring in many ways while others read it, as memberlist does. The race detector watches.
func TestInstall(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.ByteRange(1, 6), 1, 5, rapid.ID)
		ring, err := memberlist.NewKeyring(nil, bytes.Repeat([]byte{1}, 32))
		if err != nil {
			rt.Fatal(err)
		}
		k := &keyFile{ring: ring}
		stop := make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for _, key := range k.ring.GetKeys() {
						_ = key[0]
					}
					runtime.Gosched()
				}
			}
		})
		for range 3 {
			want := some.Draw(rt, "keys")
			var keys [][]byte
			for _, b := range want {
				keys = append(keys, bytes.Repeat([]byte{b}, 32))
			}
			if err := k.install(keys); err != nil {
				rt.Error(err)
			}
			got := k.ring.GetKeys()
			if len(got) != len(want) || got[0][0] != want[0] {
				rt.Errorf("got %v, want %v", got, want)
			}
		}
		close(stop)
		reading.Wait()
	})
}

func TestWrongKey(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.cfg.KeyFile = keyFileOf(t, key(1))
		routers := w.cluster(3)
		for name, file := range map[string]string{"other": keyFileOf(t, key(2)), "none": ""} {
			w.cfg.KeyFile = file
			stranger := w.start(name)
			time.Sleep(30 * time.Second)
			if !see(routers, routers) || !see([]*router{stranger}, []*router{stranger}) {
				t.Errorf("%s: it is in", name)
			}
			for _, j := range []*journal{stranger.journal, routers[0].journal} {
				lines := j.lines("gossip with another key refused")
				if len(lines) == 0 || len(lines) > 6 || !strings.Contains(lines[0], "gossip.key_file") || !strings.Contains(lines[0], "remote=10.0.0.") {
					t.Errorf("%s: %d lines: %s", name, len(lines), j)
				}
			}
			stranger.stop()
		}
	})
}

func TestWrongLabel(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		routers := w.cluster(3)
		w.label = "staging"
		stranger := w.start("stranger")
		time.Sleep(30 * time.Second)
		if !see(routers, routers) || !see([]*router{stranger}, []*router{stranger}) {
			t.Error("it is in")
		}
		lines := routers[0].journal.lines("gossip of another cluster refused")
		if len(lines) != 1 || !strings.Contains(lines[0], "cluster.name") || !strings.Contains(lines[0], "staging") {
			t.Errorf("%d lines: %s", len(lines), routers[0].journal)
		}
		if lines := stranger.journal.lines("a seed hung up"); len(lines) != 3 || !strings.Contains(lines[0], "cluster.name") {
			t.Errorf("%d lines: %s", len(lines), stranger.journal)
		}
	})
}

// TestKeyRotation replaces the key on one router after the other, in the three steps that 'warmring certs gossip-key'
// describes, with a fact that must get through at each of them.
func TestKeyRotation(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		w.cfg.KeyFile = "" // each router has a file of its own
		var files []string
		var routers []*router
		for i := range 3 {
			w.net.Host(w.seeds[i])
		}
		for i := range 3 {
			files = append(files, keyFileOf(t, key(1)))
			w.cfg.KeyFile = files[i]
			routers = append(routers, w.start(w.seeds[i]))
		}
		w.within(10*time.Second, "all see all", func() bool { return see(routers, routers) })
		for step, keys := range [][]string{{key(1), key(2)}, {key(2), key(1)}, {key(2)}} {
			for i, file := range files {
				writeKeys(t, file, keys...)
				time.Sleep(keysEvery + time.Second)
				value := strings.Repeat("x", 3*step+i)
				if err := routers[i].Announce("k", []byte(value), time.Minute); err != nil {
					t.Fatal(err)
				}
				w.within(2*time.Second, "the fact is everywhere", func() bool { return holds(routers, routers[i].name, "k", value) })
			}
		}
		for _, r := range routers {
			if lines := r.journal.lines("refused"); len(lines) > 0 {
				t.Errorf("%s: %v", r.name, lines)
			}
			if lines := r.journal.lines("gossip keys replaced"); len(lines) != 3 {
				t.Errorf("%s: %s", r.name, r.journal)
			}
		}
	})
}
