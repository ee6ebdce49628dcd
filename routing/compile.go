package routing

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/warmring/warmring/routing/prefix"
)

// target is an endpoint with what a request to it needs.
type target struct {
	groups   []*group // in the order of the endpoint's variants
	shares   keys     // of the variants, by their weights
	root     uint64   // of the keys that choose a variant
	usual    int      // canonical text that Map reads, if a character takes a byte and nothing is hot
	most     int      // the same if characters are as long as they can be and all is hot
	adaptive bool     // a variant has `auto`
	// deepest is how many chunks Map needed at most to find a place.
	deepest atomic.Int64
}

// group is the candidates of one variant of an endpoint: its active model
// servers, sorted by id.
type group struct {
	ordinal  int    // position in Epoch.groups
	root     uint64 // of the prefix keys, before adapter and tenant
	endpoint string
	variant  string
	policy   Policy
	form     form
	backends []Backend
	keys     keys // of the backends
}

// model is what a request's model field stands for.
type model struct{ endpoint, adapter string }

// startText is how much canonical text prefix.Start reads, in bytes.
const startText = 4096

// compile derives the lookup structures and the digest from a valid content.
func (e *Epoch) compile() {
	e.targets = make(map[string]*target, len(e.endpoints))
	e.models = make(map[string]model, len(e.endpoints))
	for i := range e.endpoints {
		e.compileEndpoint(&e.endpoints[i])
	}
	for i := range e.backends {
		b := &e.backends[i]
		if g := e.group(b.Endpoint, b.Variant); g != nil && b.State == Active {
			g.backends = append(g.backends, *b)
			g.keys.add(b.ID, e.salt, b.Weight)
		}
	}
	e.levels = e.hot.levels()
	e.digest = e.sum()
	e.id = epochID(e.generation, e.number)
}

func epochID(generation, number uint64) string { return fmt.Sprintf("%d.%d", generation, number) }

func (e *Epoch) compileEndpoint(ep *Endpoint) {
	t := &target{root: prefix.Root(e.salt, ep.Name)}
	e.targets[ep.Name] = t
	e.models[ep.Name] = model{endpoint: ep.Name}
	for _, name := range ep.Aliases {
		e.models[name] = model{endpoint: ep.Name}
	}
	for _, name := range ep.Adapters {
		e.models[name] = model{endpoint: ep.Name, adapter: name}
	}
	for _, v := range ep.Variants {
		g := &group{
			ordinal: len(e.groups), root: prefix.Root(e.salt, ep.Name, v.Name),
			endpoint: ep.Name, variant: v.Name, policy: v.Policy, form: v.Policy.form(),
		}
		e.groups = append(e.groups, g)
		t.groups = append(t.groups, g)
		t.shares.add(v.Name, e.salt, v.Weight)
		t.read(g, len(ep.Variants) > 1)
	}
}

// read notes how much text the map reads for the variant g, and to choose it
// among several.
func (t *target) read(g *group, several bool) {
	if several || g.form == random || g.form == least {
		t.usual, t.most = max(t.usual, startText), max(t.most, startText)
	}
	if g.form == auto {
		t.adaptive, t.most = true, prefix.MaxText
	}
	if g.form == fixed {
		t.usual = max(t.usual, g.policy.PrefixLength)
		t.most = max(t.most, min(g.policy.PrefixLength*utf8.UTFMax, prefix.MaxText))
	}
}

// group finds a variant's candidates by name, nil if there is no such variant.
func (e *Epoch) group(endpoint, variant string) *group {
	t, ok := e.targets[endpoint]
	if !ok {
		return nil
	}
	for _, g := range t.groups {
		if g.variant == variant {
			return g
		}
	}
	return nil
}

// sum hashes a canonical form of the epoch: everything in order, integers in
// little endian, strings and lists behind their lengths.
func (e *Epoch) sum() uint64 {
	var c canon
	c.num(e.generation, e.number, saltMark(e.salt))
	c.num(uint64(len(e.endpoints)))
	for i := range e.endpoints {
		c.endpoint(&e.endpoints[i])
	}
	c.num(uint64(len(e.backends)))
	for i := range e.backends {
		b := &e.backends[i]
		c.text(b.ID, b.URL, b.Endpoint, b.Variant, b.Source)
		c.num(math.Float64bits(b.Weight), uint64(b.MaxInflight), uint64(b.State), b.Incarnation)
	}
	if e.hot != nil {
		c.num(uint64(len(e.hot.Runs)))
		for _, r := range e.hot.Runs {
			c.num(r.First, r.Last, uint64(r.Length), uint64(r.Servers))
		}
	}
	return xxhash.Sum64(c)
}

// canon is a canonical form under construction.
type canon []byte

func (c *canon) num(values ...uint64) {
	for _, v := range values {
		*c = binary.LittleEndian.AppendUint64(*c, v)
	}
}

func (c *canon) text(values ...string) {
	for _, v := range values {
		c.num(uint64(len(v)))
		*c = append(*c, v...)
	}
}

func (c *canon) endpoint(ep *Endpoint) {
	c.text(ep.Name)
	c.num(uint64(len(ep.Aliases)))
	c.text(ep.Aliases...)
	c.num(uint64(len(ep.Adapters)))
	c.text(ep.Adapters...)
	c.num(uint64(len(ep.Variants)))
	for _, v := range ep.Variants {
		c.text(v.Name, string(v.Policy.Strategy))
		c.num(math.Float64bits(v.Weight), uint64(v.Policy.PrefixLength), uint64(v.Policy.ConcurrencyThreshold))
	}
}
