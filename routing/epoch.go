package routing

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// Epoch is one agreed state of the fleet: endpoints, model servers and hot
// table. It is immutable and safe for use by any number of goroutines. Two epochs
// with equal ID have equal content, which [Epoch.Digest] checks.
type Epoch struct {
	generation uint64
	number     uint64
	salt       uint64
	digest     uint64
	id         string
	endpoints  []Endpoint // sorted by name
	backends   []Backend  // sorted by id
	hot        *HotTable

	// What the epoch was made from, which only helps to find what was placed before: the map does not depend on it.
	before map[uint64]*level // the hot table before this one; nil without one

	// What follows is derived from the above by compile.
	targets map[string]*target
	models  map[string]model
	groups  []*group          // by ordinal
	levels  map[uint64]*level // of the hot table, by the first chunk; nil before the first table

	// settled says that no pin of the time before the first table is looked up any more, so that Map needs less text.
	settled atomic.Bool
}

// NewEpoch returns epoch number 0 of a generation, with no fleet. The salt is the
// cluster's secret: who knows it can write prompts that meet on one model server.
func NewEpoch(generation, salt uint64) *Epoch {
	e := &Epoch{generation: generation, salt: salt}
	e.compile()
	return e
}

// Succeed returns the same content as the first epoch of a later generation, for
// when the agreed log was lost and begun anew. The salt stays, so prefixes keep
// their homes.
func (e *Epoch) Succeed(generation uint64) *Epoch {
	next := &Epoch{generation: generation, number: 1, salt: e.salt, endpoints: e.endpoints, backends: e.backends, hot: e.hot}
	next.compile()
	return next
}

// Compare is negative when e is older than o, positive when it is newer, and 0 when
// both have the same ID: by generation, then by number.
func (e *Epoch) Compare(o *Epoch) int {
	return cmp.Or(cmp.Compare(e.generation, o.generation), cmp.Compare(e.number, o.number))
}

// Generation counts how often the agreed state was lost and begun anew.
func (e *Epoch) Generation() uint64 { return e.generation }

// Number counts the changes applied in this generation.
func (e *Epoch) Number() uint64 { return e.number }

// Digest is a hash of all that the map depends on; equal IDs with unequal digests
// mean that two replicas route differently.
func (e *Epoch) Digest() uint64 { return e.digest }

// ID is "generation.number".
func (e *Epoch) ID() string { return e.id }

// String is the ID. It keeps the salt out of logs.
func (e *Epoch) String() string { return e.ID() }

// GoString is the ID, for the same reason.
func (e *Epoch) GoString() string { return e.ID() }

// MarshalText is the ID, for the same reason.
func (e *Epoch) MarshalText() ([]byte, error) { return []byte(e.ID()), nil }

// Endpoints returns a copy of the endpoints, sorted by name.
func (e *Epoch) Endpoints() []Endpoint {
	out := make([]Endpoint, len(e.endpoints))
	for i := range e.endpoints {
		out[i] = cloneEndpoint(e.endpoints[i])
	}
	return out
}

// Backends returns a copy of the model servers in every state, sorted by id.
func (e *Epoch) Backends() []Backend { return slices.Clone(e.backends) }

// Hot returns a copy of the hot table, nil before the first one.
func (e *Epoch) Hot() *HotTable { return e.hot.clone() }

// Adaptive reports whether some variant routes by the hot table.
func (e *Epoch) Adaptive() bool {
	return slices.ContainsFunc(e.groups, func(g *group) bool { return g.form == auto })
}

// Has reports whether there is an endpoint of this name (not alias).
func (e *Epoch) Has(endpoint string) bool {
	_, ok := e.targets[endpoint]
	return ok
}

func cloneEndpoint(ep Endpoint) Endpoint {
	ep.Aliases = slices.Clone(ep.Aliases)
	ep.Adapters = slices.Clone(ep.Adapters)
	ep.Variants = slices.Clone(ep.Variants)
	return ep
}

// saltMark stands for the salt in the digest. xxhash can be run backwards, so the
// salt itself must not go into a hash that is shown to anyone.
func saltMark(salt uint64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("warmring salt"), salt))
	return binary.LittleEndian.Uint64(sum[:])
}
