// Package places is what the replicas tell each other about where they sent prompts, so
// that each knows what the model servers' caches hold and how fast they turn over.
//
// Each replica keeps a [Log] of what it placed of late and tells it in order, to each
// peer from a cursor of the peer's own. Whoever is too far behind misses the oldest
// ones: a placement is a hint, and the clock that comes with it is absolute, so the next
// one makes up for what was missed. Hearing something twice does no harm either.
//
// The package does no I/O, reads no clock and starts no goroutine.
package places

// Limits of what is told and accepted.
const (
	// MaxID is the length of a model server's id, in bytes.
	MaxID = 256
	// MaxDepth is how many tokens a prompt and its answer may have.
	MaxDepth = 1 << 24
	// MaxWritten keeps sums over all origins far from the limits of an integer.
	MaxWritten = 1 << 50
)

// Placement says that its origin sent a prompt to a model server.
type Placement struct {
	// Pin names the prompt's prefix. 0: nothing was placed, only the clock is told.
	Pin         uint64
	ID          string // of the model server, 1 to MaxID bytes
	Incarnation uint64
	// Depth is how many tokens of the prompt and its answer the model server then holds,
	// 0 to MaxDepth.
	Depth int
	// Written is how many tokens the origin ever had that model server write to its cache,
	// this placement included, 0 to MaxWritten: the origin's part of the cache's clock.
	Written int64
}

// Valid reports whether all of p is in its range.
func (p *Placement) Valid() bool {
	return p.ID != "" && len(p.ID) <= MaxID &&
		p.Depth >= 0 && p.Depth <= MaxDepth && p.Written >= 0 && p.Written <= MaxWritten
}
