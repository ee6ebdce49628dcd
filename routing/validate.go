package routing

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of names, in bytes, and of a weight.
const (
	maxName   = 63 // SageMaker's for endpoints and variants
	maxLabel  = 256
	maxWeight = 1e6
)

// maxRuns is how many runs a hot table may have: 8 a backend, at least 64.
func maxRuns(backends int) int { return max(64, 8*backends) }

// checkNames checks every endpoint and that each name means one thing only.
func (d *draft) checkNames() {
	owner := map[string]string{} // name, alias or adapter -> path
	claim := func(name, path string) {
		if first, taken := owner[name]; taken {
			d.fail(path, "%q is taken by %s", name, first)
			return
		}
		owner[name] = path
	}
	names := slices.Sorted(maps.Keys(d.endpoints))
	for _, name := range names {
		claim(name, at("endpoints", name)+".name")
	}
	for _, name := range names {
		ep := d.endpoints[name]
		path := at("endpoints", name)
		if !validName(name) {
			d.fail(path+".name", "want 1 to %d letters, digits and inner hyphens", maxName)
		}
		for _, alias := range ep.Aliases {
			d.checkLabel(path+".aliases", alias)
			claim(alias, path+".aliases")
		}
		for _, adapter := range ep.Adapters {
			d.checkLabel(path+".adapters", adapter)
			claim(adapter, path+".adapters")
		}
		d.checkVariants(path+".variants", ep.Variants)
	}
}

func (d *draft) checkLabel(path, label string) {
	if !validLabel(label) {
		d.fail(path, "%q: want 1 to %d letters, digits and any of - . _ / : @ + after the first", label, maxLabel)
	}
}

func (d *draft) checkVariants(path string, variants []Variant) {
	if len(variants) == 0 {
		d.fail(path, "want at least one variant")
		return
	}
	sum := 0.0
	seen := map[string]bool{}
	for _, v := range variants {
		p := path + "[" + v.Name + "]"
		if !validName(v.Name) {
			d.fail(p+".name", "want 1 to %d letters, digits and inner hyphens", maxName)
		}
		if seen[v.Name] {
			d.fail(p+".name", "is there twice")
		}
		seen[v.Name] = true
		if !(v.Weight >= 0 && v.Weight <= maxWeight) {
			d.fail(p+".weight", "%v: want 0 to %v", v.Weight, float64(maxWeight))
		}
		sum += v.Weight
		d.checkPolicy(p+".routing", &v.Policy)
	}
	if !(sum > 0) {
		d.fail(path, "want at least one variant with a weight above 0")
	}
}

func (d *draft) checkPolicy(path string, p *Policy) {
	switch p.Strategy {
	case Random, LeastOutstandingRequests, PrefixAware:
	default:
		d.fail(path+".strategy", "%q: want %s, %s or %s", p.Strategy, Random, LeastOutstandingRequests, PrefixAware)
	}
	if p.PrefixLength != 0 && (p.PrefixLength < MinPrefixLength || p.PrefixLength > MaxPrefixLength) {
		d.fail(path+".prefix_length", "%d: want %d to %d, or auto", p.PrefixLength, MinPrefixLength, MaxPrefixLength)
	}
	if p.ConcurrencyThreshold < 0 || p.ConcurrencyThreshold > MaxConcurrencyThreshold {
		d.fail(path+".concurrency_threshold", "%d: want 1 to %d", p.ConcurrencyThreshold, MaxConcurrencyThreshold)
	}
}

func (d *draft) checkBackends() {
	for _, id := range slices.Sorted(maps.Keys(d.backends)) {
		b := d.backends[id]
		path := at("backends", id)
		if !validID(id) {
			d.fail(path+".id", "want 1 to %d visible ASCII characters", maxLabel)
		}
		if msg := checkURL(b.URL); msg != "" {
			d.fail(path+".url", "%q: %s", WithoutUser(b.URL), msg)
		}
		if !(b.Weight > 0 && b.Weight <= maxWeight) {
			d.fail(path+".weight", "%v: want above 0, at most %v", b.Weight, float64(maxWeight))
		}
		if b.Source != "" && !validID(b.Source) {
			d.fail(path+".source", "want at most %d visible ASCII characters", maxLabel)
		}
		if b.MaxInflight < 0 {
			d.fail(path+".max_inflight", "%d: want 0 (none) or more", b.MaxInflight)
		}
		if b.State > Draining {
			d.fail(path+".state", "want joining, active or draining")
		}
		ep, ok := d.endpoints[b.Endpoint]
		switch {
		case !ok && b.Endpoint == "":
			d.fail(path+".endpoint", "want the name of an endpoint; it may be left out where there is one alone")
			continue
		case !ok:
			d.fail(path+".endpoint", "there is no endpoint %q", b.Endpoint)
			continue
		}
		if !slices.ContainsFunc(ep.Variants, func(v Variant) bool { return v.Name == b.Variant }) {
			d.fail(path+".variant", "endpoint %q has no variant %q", b.Endpoint, b.Variant)
		}
	}
}

func (d *draft) checkHot(h *HotTable) {
	if h == nil {
		return
	}
	if most := maxRuns(len(d.backends)); len(h.Runs) > most {
		d.fail("hot.runs", "%d: want at most %d", len(h.Runs), most)
		return
	}
	seen := map[uint64]bool{}
	for i, r := range h.Runs {
		path := "hot.runs[" + strconv.Itoa(i) + "]"
		if seen[r.First] {
			d.fail(path+".first", "another run has the same")
		}
		seen[r.First] = true
		if r.Length < 1 {
			d.fail(path+".length", "%d: want 1 or more", r.Length)
		}
		if r.Servers < 2 {
			d.fail(path+".servers", "%d: want 2 or more", r.Servers)
		}
	}
}

// validName is SageMaker's rule for endpoint and variant names:
// ^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$, at most 63 characters.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && alnum(s[0]) && alnum(s[len(s)-1]) &&
		strings.IndexFunc(s, func(r rune) bool { return r != '-' && (r >= 0x80 || !alnum(byte(r))) }) < 0
}

// validLabel allows what model names use beyond that, as in org/model:tag.
func validLabel(s string) bool {
	return s != "" && len(s) <= maxLabel && alnum(s[0]) &&
		strings.IndexFunc(s, func(r rune) bool {
			return r >= 0x80 || (!alnum(byte(r)) && !strings.ContainsRune("-._/:@+", r))
		}) < 0
}

// validID allows what may stand in a header and a metric's label.
func validID(s string) bool {
	return s != "" && len(s) <= maxLabel && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// WithoutUser hides the name and the password that an address may begin with: errors are logged.
func WithoutUser(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "..." + url[at:]
	}
	return url
}

// checkURL returns what is wrong with the address of a model server, or "". Only
// a scheme, a host and a port are allowed: paths are the client's.
func checkURL(s string) string {
	rest, ok := strings.CutPrefix(s, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(s, "https://")
	}
	if !ok {
		return "want http:// or https://"
	}
	switch i := strings.IndexAny(rest, "/?#@"); {
	case i < 0:
	case rest[i] == '@':
		return "want no user name or password"
	default:
		return "want nothing behind the port: a request keeps its own path, such as /v1/chat/completions"
	}
	colon := strings.LastIndexByte(rest, ':')
	if colon < 0 {
		return "want host:port"
	}
	host, port := rest[:colon], rest[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "want a port from 1 to 65535 at the end"
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = strings.ReplaceAll(host[1:len(host)-1], ":", "0")
	}
	bad := func(r rune) bool { return r >= 0x80 || (!alnum(byte(r)) && !strings.ContainsRune("-._%", r)) }
	if host == "" || strings.IndexFunc(host, bad) >= 0 {
		return "want a host name or address before the port"
	}
	return ""
}
