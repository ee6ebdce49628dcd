package routing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warmring/warmring/routing/prefix"
)

// Request is what the map reads of a request.
type Request struct {
	Endpoint string
	// Variant is the variant that the client asked for by name, or empty.
	Variant string
	// Adapter is the LoRA adapter, or empty.
	Adapter string
	// Tenant keeps equal prompts of different tenants apart.
	Tenant string
	// Text is the canonical text, cut at TextLimit's usual or later; nil is empty.
	Text *prefix.Text
	// Size is the length of the whole prompt in bytes, 0 when unknown.
	Size int
	// Unary says that the answer comes in one piece, so that its first token cannot be seen.
	Unary bool
	// Uncounted says that the request is none of those from which hot tables are made (Picker.Counts).
	Uncounted bool
	// Chain is memory of the caller's, which Map fills with the text's chain for `auto`: of a request that is not counted, with as
	// much as Map needs.
	Chain []uint64
}

// bytesPerToken is the length of a token in bytes until it is learnt.
const bytesPerToken = 4

// maxPromptTokens bounds the estimate, so that sums of costs stay far from the
// limits of an integer.
const maxPromptTokens = 1 << 24

// Place is what the map says about one request. It is a small value that holds
// nothing of the request's text.
type Place struct {
	epoch *Epoch
	group *group
	root  uint64
	pin   uint64
	// before is the pin under the hot table before this one, start the pin without any, as long as that is looked up.
	before, start uint64
	level         *level // the last hot level of the text; nil for none
	home          int    // index in the group, -1 without an active backend
	size, hot     int    // of the prompt and of what is hot of it, in bytes
	above         int    // of what is hot, before the last level
	unary         bool
	needs         int // bytes of text, where it was cut too soon; else 0
	uncounted     bool
	chain         []uint64 // the Request's memory
}

// Map finds the candidates of a request and their order: layer 1, the same on
// every replica with the same epoch. The errors are ErrUnknownEndpoint and
// ErrUnknownVariant; a place without an active model server is not an error.
func (e *Epoch) Map(r *Request) (Place, error) {
	t, ok := e.targets[r.Endpoint]
	if !ok {
		return Place{}, fmt.Errorf("%w: %.64q", ErrUnknownEndpoint, r.Endpoint)
	}
	text := r.Text
	if text == nil {
		text = &prefix.Text{}
	}
	g := e.variant(t, r, text)
	if g == nil {
		return Place{}, fmt.Errorf("%w: %.64q", ErrUnknownVariant, r.Variant)
	}
	pl := Place{
		epoch: e, group: g, root: prefix.Root(g.root, r.Adapter, r.Tenant), size: cmp.Or(r.Size, len(text.Bytes)), unary: r.Unary,
		uncounted: r.Uncounted,
	}
	e.pinned(t, &pl, r, text)
	pl.home = g.first(pl.level, pl.pin)
	return pl, nil
}

// variant chooses the request's variant: the one it names, or else by weighted
// rendezvous on the start of the text, so that a chat stays with its variant on
// every replica. Variants without an active model server are passed over.
func (e *Epoch) variant(t *target, r *Request, text *prefix.Text) *group {
	if r.Variant != "" {
		return e.group(r.Endpoint, r.Variant)
	}
	if len(t.groups) == 1 {
		return t.groups[0]
	}
	start := prefix.Start(prefix.Root(t.root, r.Adapter, r.Tenant), text)
	var best *group
	top := -1.0
	for i, g := range t.groups {
		s := t.shares.score(i, start)
		if len(g.backends) == 0 {
			s = 0
		}
		if t.shares.weights[i] > 0 && s > top {
			best, top = g, s
		}
	}
	return best
}

// in returns the place in another epoch, for a fleet that changed after Map. It
// keeps the pin. Without such a variant there, the place has no candidates; nor
// has the zero Place.
func (pl *Place) in(e *Epoch) Place {
	if pl.epoch == e {
		return *pl
	}
	if pl.group == nil {
		return Place{home: -1}
	}
	moved := *pl
	moved.epoch, moved.home, moved.level = e, -1, nil
	moved.group = e.group(pl.group.endpoint, pl.group.variant)
	if moved.group != nil {
		moved.level = e.follow(moved.group, pl.level)
		moved.home = moved.group.first(moved.level, pl.pin)
	}
	return moved
}

// Epoch is the epoch that was asked.
func (pl *Place) Epoch() *Epoch { return pl.epoch }

// Endpoint is the endpoint's name.
func (pl *Place) Endpoint() string { return pl.group.endpoint }

// Variant is the name of the variant that was named or chosen.
func (pl *Place) Variant() string { return pl.group.variant }

// Strategy is how the variant spreads its requests.
func (pl *Place) Strategy() Strategy { return pl.group.policy.Strategy }

// Pin is the key that ranks the candidates. It derives from the secret salt.
func (pl *Place) Pin() uint64 { return pl.pin }

// Tokens estimates the length of the prompt in tokens, at four bytes a token.
func (pl *Place) Tokens() int { return min(pl.size/bytesPerToken, maxPromptTokens) }

// Levels returns the runs of the hot table that the prompt goes through.
func (pl *Place) Levels() []Run {
	if pl.level == nil {
		return nil
	}
	var out []Run
	for l := pl.level; l != nil; l = l.left.Load().up {
		out = append(out, l.Run)
	}
	slices.Reverse(out)
	return out
}

// Needs is 0 where it is certain which place the text has. Where the text was cut before that, it is how many bytes of it to map
// again: more than there were, perhaps still too few, and never needed beyond TextLimit's most.
func (pl *Place) Needs() int { return pl.needs }

// Hot is how many bytes of the prompt are hot.
func (pl *Place) Hot() int { return pl.hot }

// contains reports whether candidate i shares the hot part of the prompt.
func (pl *Place) contains(i int) bool {
	n := pl.level.candidates()
	return n == nil || n.in == nil || n.in[i]
}

// Home is the id of the map's first choice, empty without an active backend.
func (pl *Place) Home() string {
	if pl.home < 0 {
		return ""
	}
	return pl.group.backends[pl.home].ID
}

// Ranking returns all candidates in the map's order, the home first.
func (pl *Place) Ranking() []Backend {
	order := pl.order()
	out := make([]Backend, len(order))
	for rank, i := range order {
		out[rank] = pl.group.backends[i]
	}
	return out
}

// order returns the candidates' indices in the group in the map's order.
func (pl *Place) order() []int {
	order := make([]int, len(pl.group.backends))
	scores := make([]float64, len(order))
	for i := range order {
		order[i], scores[i] = i, pl.group.keys.score(i, pl.pin)
		if !pl.contains(i) {
			scores[i] = -1 / scores[i] // behind all that share the hot part, in the same order
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}
