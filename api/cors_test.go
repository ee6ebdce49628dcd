package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestScriptsOfOtherOrigins(t *testing.T) {
	const ours, other = "https://chat.example.com", "https://evil.example.com"
	var seen []string
	model := modelServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header["Origin"]
		w.Header().Set("Access-Control-Allow-Origin", "https://wrong.example.com")
		if r.Header.Get("Origin") == "" {
			w.Header().Del("Access-Control-Allow-Origin") // as Starlette's middleware does
		}
		w.Header().Set("Vary", "Accept-Encoding")
		echo(w, r)
	})
	for name, tt := range map[string]struct {
		allow          []string
		origin         string
		readable, asks bool // answers may be read; the backend sees the origin and decides
	}{
		"one of ours":      {[]string{"https://a.example.com", ours}, ours, true, false},
		"not one of ours":  {[]string{ours}, other, false, false},
		"every origin":     {[]string{"*"}, other, true, false},
		"nothing is said":  {nil, other, false, true},
		"not by a browser": {[]string{ours}, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, fleet(t, []string{"llama"}, model), func(c *Config, _ *Deps) {
				c.AllowOrigins, c.KeysFile = tt.allow, keysFile(t, "sk-a")
			})
			allows := func(res answered) bool {
				return tt.origin != "" && res.Header.Get("Access-Control-Allow-Origin") == tt.origin && len(res.Header["Access-Control-Allow-Origin"]) == 1
			}
			res := e.do(t, "OPTIONS", "/v1/chat/completions", "", "Origin", tt.origin,
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
			if headers := res.Header.Get("Access-Control-Allow-Headers"); res.StatusCode != http.StatusNoContent || allows(res) != tt.readable ||
				(headers == "authorization,content-type") != tt.readable || strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "POST") != tt.readable {
				t.Errorf("the question is answered with %d %v", res.StatusCode, res.Header)
			}
			for key, status := range map[string]int{"sk-a": http.StatusOK, "sk-none": http.StatusUnauthorized} {
				res := e.do(t, "POST", "/v1/chat/completions", hello, "Origin", tt.origin, "Authorization", "Bearer "+key)
				if res.StatusCode != status || allows(res) != tt.readable {
					t.Errorf("with %s: %d %v", key, res.StatusCode, res.Header)
				}
				if tt.allow != nil && tt.origin != "" && (res.Header["Vary"][0] != "Origin" || (status == http.StatusOK && len(res.Header["Vary"]) != 2)) {
					t.Errorf("a cache would give the answer to others: %v", res.Header)
				}
			}
			if (len(seen) > 0 && seen[0] != "") != (tt.asks && tt.origin != "") {
				t.Errorf("the backend saw %q", seen)
			}
		})
	}
	for _, wrong := range []string{"chat.example.com", "https://chat.example.com/", "https://u:secret@chat.example.com", ""} {
		c := Default()
		c.AllowOrigins = []string{"*", wrong}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "api.allow_origins[1]: must be") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
