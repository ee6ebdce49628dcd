package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshot(t *testing.T) {
	at := time.Unix(100, 0).UTC()
	a := newAdmin(t, Default(), func(d *Deps) {
		d.Queued = func() int { return 4 }
		d.Ready = func() error { return errors.New("leaving") }
		d.Traffic = func(now time.Time) Traffic {
			if !now.Equal(at) {
				t.Errorf("asked for %v", now)
			}
			return Traffic{
				Now: Figures{Seconds: 10, Requests: 4, HitRate: new(.5)}, Decisions: map[string]uint64{"home": 3}, OverheadP50: new(.2),
				HistoryStep: 5 * time.Second, HistoryUntil: at, History: []Figures{{Seconds: 5}},
				Backends: map[string]Figures{"a": {Requests: 3}, "c": {Requests: 1, TTFTp50: new(20.)}, "gone": {Requests: 9}},
				Changes:  []Change{{At: at, Kind: "added", Subject: "a", Epoch: "1.1"}},
			}
		}
	})
	var got Snapshot
	ask(t, a, "GET", "/admin/v1/snapshot", "", &got)
	if len(got.Digest) != 16 {
		t.Errorf("digest %q", got.Digest)
	}
	got.Digest = ""
	want := Snapshot{
		At: at, Router: "r1", Version: "v0", NotReady: "leaving", Epoch: "1.1", Queued: 4,
		Now: Figures{Seconds: 10, Requests: 4, HitRate: new(.5)}, Decisions: map[string]uint64{"home": 3}, OverheadP50: new(.2),
		HistoryStep: 5, HistoryUntil: at, History: []Figures{{Seconds: 5}},
		Backends: []BackendTraffic{
			{ID: "a", Endpoint: "llama", Variant: "blue", State: "active", Share: new(.75), Minute: Figures{Requests: 3}},
			{ID: "b", Endpoint: "llama", Variant: "blue", State: "active", Share: new(0.)},
			{ID: "c", Endpoint: "llama", Variant: "green", State: "joining", MaxInFlight: 5, Share: new(.25), Minute: Figures{Requests: 1, TTFTp50: new(20.)}},
		},
		Changes: []Change{{At: at, Kind: "added", Subject: "a", Epoch: "1.1"}},
		Members: []Member{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is not known is null and not 0; a list is never null.
func TestSnapshotOfNothing(t *testing.T) {
	var got map[string]json.RawMessage
	ask(t, newAdmin(t, Default(), nil), "GET", "/admin/v1/snapshot", "", &got)
	for member, want := range map[string]string{"history": "[]", "changes": "[]", "decisions": "{}", "overhead_p50_ms": "null", "cluster": "null", "members": "[]"} {
		if string(got[member]) != want {
			t.Errorf("%s is %s, want %s", member, got[member], want)
		}
	}
	for _, want := range []string{`"hit_rate": null`, `"share": null`, `"ejected_until": null`} {
		if !strings.Contains(string(got["backends"]), want) {
			t.Errorf("no %s in %s", want, got["backends"])
		}
	}
}

func TestPage(t *testing.T) {
	w := ask(t, newAdmin(t, Default(), nil), "GET", "/ui/", "", nil)
	body, h := w.Body.String(), w.Header()
	if w.Code != http.StatusOK || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(body, "<!doctype html>") {
		t.Errorf("%d, %v", w.Code, h)
	}
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{
		"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
		"script-src '" + hashOf(body, "script") + "'", "style-src '" + hashOf(body, "style") + "'",
	} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || hashOf(body, "script") == hashOf("", "script") || hashOf(body, "style") == hashOf("", "style") {
		t.Errorf("the policy is weak: %s", policy)
	}
	w = ask(t, newAdmin(t, Default(), nil), "GET", "/ui", "", nil)
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "ui/" {
		t.Errorf("/ui: %d to %q", w.Code, w.Header().Get("Location"))
	}
}

// The hash is the one that the specification gives as an example.
func TestHashOf(t *testing.T) {
	if got := hashOf("<p><script>alert('Hello, world.');</script></p>", "script"); got != "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=" {
		t.Error(got)
	}
}

// The page holds what its policy allows: one script and one style, nothing inline, nothing from elsewhere, and no way to
// read markup from a name.
func TestPageKeepsItsPolicy(t *testing.T) {
	for _, element := range []string{"<script", "<style"} {
		if n := strings.Count(page, element); n != 1 {
			t.Errorf("%d times %s", n, element)
		}
	}
	for _, bad := range []string{" style=", " onclick=\"", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", " src=", "@import", "url(", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// The page is there without the token, so that it can ask for it; its data is not.
func TestPageNeedsNoToken(t *testing.T) {
	cfg := Default()
	cfg.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(cfg.TokenFile, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAdmin(t, cfg, nil)
	for target, want := range map[string]int{"/ui/": 200, "/ui": 308, "/ui/x": 401, "/ui/../admin/v1/status": 401, "//ui/": 401, "/admin/v1/snapshot": 401} {
		if w := ask(t, a, "GET", target, "", nil); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
	if w := ask(t, a, "GET", "/admin/v1/snapshot", "", nil, "Authorization", "Bearer secret"); w.Code != 200 {
		t.Errorf("with the token: %d", w.Code)
	}
}
