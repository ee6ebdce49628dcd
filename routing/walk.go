package routing

import (
	"cmp"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/warmring/warmring/routing/prefix"
)

// level is a run of the hot table in one epoch. A chain reaches it by one way only, since its hashes cover all that is
// before them: so the candidates that are left behind it are found once, by whoever comes first, and are the same for all.
type level struct {
	Run
	left atomic.Pointer[narrowed]
}

// narrowed is what is left of a group behind a level.
type narrowed struct {
	up      *level // the level before it, nil for the first
	members []int  // indices in the group, ascending; all of it: nil
	in      []bool // by index; nil for all
}

func (h *HotTable) levels() map[uint64]*level {
	if h == nil {
		return nil
	}
	out := make(map[uint64]*level, len(h.Runs))
	for _, r := range h.Runs {
		out[r.First] = &level{Run: r}
	}
	return out
}

// candidates of a place behind level l; nil is the whole group.
func (l *level) candidates() *narrowed {
	if l == nil {
		return nil
	}
	return l.left.Load()
}

// few reports whether so few of the group are left behind l that the directory has room for who of them holds it.
func (l *level) few(g *group) bool {
	n := l.candidates()
	return n != nil && len(n.members) <= placesOfPin && (n.members != nil || len(g.backends) <= placesOfPin)
}

// reach finds who is left behind l, for who came from up.
func (l *level) reach(g *group, up *level) {
	if l.left.Load() != nil {
		return
	}
	n := &narrowed{up: up}
	if before := up.candidates(); before != nil {
		n.members, n.in = before.members, before.in
	}
	size := len(g.backends)
	if n.members != nil {
		size = len(n.members)
	}
	if l.Servers < size {
		n.members = g.keys.top(n.members, l.First, l.Servers)
		n.in = make([]bool, len(g.backends))
		for _, i := range n.members {
			n.in[i] = true
		}
	}
	l.left.Store(n)
}

// top returns the k candidates that come first in the ranking of pin, of members or, when that is nil, of all; ascending.
func (k *keys) top(members []int, pin uint64, n int) []int {
	if members == nil {
		members = make([]int, len(k.hashes))
		for i := range members {
			members[i] = i
		}
	} else {
		members = slices.Clone(members)
	}
	scores := make([]float64, len(k.hashes))
	for _, i := range members {
		scores[i] = k.score(i, pin)
	}
	slices.SortFunc(members, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	members = slices.Clip(members[:min(n, len(members))])
	slices.Sort(members)
	return members
}

// leaving sets the pin of those who leave a run midway apart from the run's own.
const leaving = 0x72756e

// way is where a chain leads through a hot table.
type way struct {
	last  *level // nil for none
	depth int    // chunks that are hot
	above int    // of these, before the last level
	read  int    // chunks that had to be read; one more than there are where the chain's end is the pin
	pin   uint64
}

// walk follows a chain through a hot table. The first chunk that is not hot is the pin. A chain that is hot to its end is
// pinned at its end. With narrow the levels' candidates are found too.
func walk(levels map[uint64]*level, g *group, root uint64, chain []uint64, narrow bool) way {
	var last *level
	depth, above := 0, 0
	for depth < len(chain) {
		l, ok := levels[chain[depth]]
		if !ok {
			return way{last, depth, above, depth + 1, chain[depth]}
		}
		if narrow {
			l.reach(g, last)
		}
		last, above = l, depth
		if l.Length > 1 && (depth+l.Length > len(chain) || chain[depth+l.Length-1] != l.Last) {
			return way{last, depth + 1, above, depth + l.Length, mix(l.First ^ leaving)} // it leaves midway, as few do
		}
		depth += max(1, l.Length)
	}
	if len(chain) == 0 {
		return way{pin: root}
	}
	return way{last, depth, above, len(chain) + 1, mix(chain[len(chain)-1])}
}

// pinned finds the pin of a request: by the hot table, or, until there is one, at the start of the text.
func (e *Epoch) pinned(t *target, pl *Place, r *Request, text *prefix.Text) {
	g := pl.group
	if g.form == fixed {
		pl.pin = prefix.Fixed(pl.root, text, g.policy.PrefixLength)
		if !prefix.Enough(text, g.policy.PrefixLength) {
			pl.needs = g.policy.PrefixLength * utf8.UTFMax
		}
		return
	}
	if g.form != auto {
		pl.pin = prefix.Start(pl.root, text)
		return
	}
	most := prefix.MaxChunks
	if r.Uncounted { // as much as any request needed so far
		most = min(int(t.deepest.Load())+1, most)
	}
	var whole bool
	r.Chain, whole = prefix.AppendBegin(r.Chain[:0], pl.root, text, most)
	if !e.settled.Load() {
		pl.start = prefix.Start(pl.root, text)
	}
	now := e.ways(pl, r.Chain)
	if !whole && now.read > len(r.Chain) {
		r.Chain, whole = prefix.AppendChain(r.Chain[:0], pl.root, text), true
		now = e.ways(pl, r.Chain)
	}
	pl.chain = r.Chain
	if e.levels == nil {
		return
	}
	pl.hot, pl.above = prefix.Length(text, now.depth), prefix.Length(text, now.above)
	if text.Cut && whole && now.read >= len(r.Chain) { // the last chunk of a text that was cut is not whole
		pl.needs = (now.read + 1) * prefix.ChunkSize
		return
	}
	t.deepen(min(now.read, len(r.Chain)))
}

// ways walks the chain through the hot table and the one before it, for the pins.
func (e *Epoch) ways(pl *Place, chain []uint64) way {
	if e.levels == nil {
		pl.pin, pl.before = pl.start, pl.start
		return way{}
	}
	now := walk(e.levels, pl.group, pl.root, chain, true)
	pl.level, pl.pin, pl.before = now.last, now.pin, now.pin
	if e.before != nil {
		before := walk(e.before, pl.group, pl.root, chain, false)
		pl.before, now.read = before.pin, max(now.read, before.read)
	}
	return now
}

// follow leads a place of another epoch through the levels that this one has too.
func (e *Epoch) follow(g *group, l *level) *level {
	if l == nil {
		return nil
	}
	up := e.follow(g, l.left.Load().up)
	now, ok := e.levels[l.First]
	if !ok {
		return up
	}
	now.reach(g, up)
	return now
}

// first is the first of the ranking of pin among those behind l; -1 if there is nobody.
func (g *group) first(l *level, pin uint64) int {
	n := l.candidates()
	if n == nil || n.members == nil {
		return g.keys.first(pin)
	}
	best, top := -1, -1.0
	for _, i := range n.members {
		if s := g.keys.score(i, pin); s > top {
			best, top = i, s
		}
	}
	return best
}
