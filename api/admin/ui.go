package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// page is the dashboard: one file, with its styles and its script.
//
//go:embed ui/index.html
var page string

// pagePath needs no token: the page holds nothing but itself, and asks for the
// token before it asks for data.
const pagePath = "/ui/"

// pagePolicy allows the page its own style and script, told by their hashes, and
// requests to this listener (Content Security Policy Level 3). No script that a
// name from outside smuggles in can run.
func pagePolicy(page string) string {
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", hashOf(page, "script"), hashOf(page, "style"))
}

// hashOf is the CSP source of the text in the page's only element of this name.
func hashOf(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (a *Admin) ui(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", a.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	a.send(w, []byte(page))
}

// toPage redirects to a relative address, so that a proxy in front can move all.
func (a *Admin) toPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "ui/")
	w.WriteHeader(http.StatusPermanentRedirect)
}
