package api

import (
	"net/http"
	"net/url"
	"slices"
)

// cors lets scripts of the configured origins read the answer (the CORS protocol of https://fetch.spec.whatwg.org). It
// reports whether the request was only the question whether they may, which it answers.
func (x *exchange) cors() (preflight bool) {
	allowed := x.api.cfg.AllowOrigins
	if len(allowed) == 0 {
		return false
	}
	origin := x.r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	delete(x.r.Header, "Origin") // or a backend would decide too
	h := x.client.Header()
	h.Add("Vary", "Origin")
	if !slices.Contains(allowed, "*") && !slices.Contains(allowed, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "*")
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	if names := x.r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names) // a star would leave out Authorization
	}
	h.Set("Access-Control-Max-Age", "600")
	x.client.WriteHeader(http.StatusNoContent)
	return true
}

// isOrigin reports whether text may be an element of Config.AllowOrigins.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "*" || err == nil && u.Scheme != "" && u.Host != "" && text == u.Scheme+"://"+u.Host
}
