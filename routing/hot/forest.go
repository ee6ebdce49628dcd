package hot

import (
	"cmp"
	"slices"
)

// forest is the counted chunks by their parents.
type forest struct {
	requests float64
	nodes    []node  // by chunk
	order    []int32 // places of nodes, each after its parent
}

type node struct {
	Count
	up int32 // place of the parent, -1 for the first of a chain
	// Servers that it is spread over, and was in the table before; 1: it is not hot.
	servers, held int
	// It is, and was, in one run with its parent.
	joins, joined bool
}

const none = -1

// grow makes the forest. What has no way to the first chunk of a chain, as in a cycle, is not in its order; such a report
// is wrong, as no hash covers itself.
func grow(sum Report) *forest {
	f := &forest{requests: sum.Requests, nodes: make([]node, len(sum.Counts)), order: make([]int32, 0, len(sum.Counts))}
	// Lists of children: the first of a node, and the next of the same parent.
	child, sibling := make([]int32, len(f.nodes)), make([]int32, len(f.nodes))
	for i := range child {
		child[i], sibling[i] = none, none
	}
	for i, c := range sum.Counts {
		up := f.prepare(i, c, sum.Counts)
		if up == none {
			f.order = append(f.order, int32(i))
			continue
		}
		child[up], sibling[i] = int32(i), child[up]
	}
	for at := 0; at < len(f.order); at++ {
		for i := child[f.order[at]]; i != none; i = sibling[i] {
			f.order = append(f.order, i)
		}
	}
	f.lift()
	return f
}

func (f *forest) prepare(i int, c Count, counts []Count) int32 {
	f.nodes[i] = node{Count: c, up: none, servers: 1, held: 1}
	if at, ok := slices.BinarySearchFunc(counts, c.Parent, byChunk); ok {
		f.nodes[i].up = int32(at)
	}
	return f.nodes[i].up
}

func byChunk(c Count, chunk uint64) int { return cmp.Compare(c.Chunk, chunk) }

// lift gives a chunk at least the visits of its children together, since who visits those visits it too. Counts are lower
// bounds, and lose in a parent what they may keep in its children where it was evicted in between or told by fewer routers.
// Then visits and servers fall along a chain.
func (f *forest) lift() {
	below := make([]float64, len(f.nodes))
	for _, i := range slices.Backward(f.order) {
		n := &f.nodes[i]
		n.Visits = min(f.requests, max(n.Visits, below[i]))
		if n.up != none {
			below[n.up] += n.Visits
		}
	}
}

// remember notes what the table before made of each chunk. Of a run only the ends are known; but hashes cover what is before
// them, so the parents of its last chunk are the run. If that is not counted any more, all that is less than the run's
// length behind its first chunk passes for it.
func (f *forest) remember(before []Run) {
	rest := make([]int, len(f.nodes))
	for _, r := range before {
		first, last := f.find(r.First), f.find(r.Last)
		if first != none {
			f.nodes[first].held = max(f.nodes[first].held, r.Servers)
		}
		if last == none && first != none {
			rest[first] = max(rest[first], r.Length-1)
		}
		for i, n := last, 1; i != none && n <= min(r.Length, len(f.nodes)); i, n = f.nodes[i].up, n+1 {
			f.nodes[i].held = max(f.nodes[i].held, r.Servers)
			f.nodes[i].joined = f.nodes[i].joined || n < r.Length
		}
	}
	for _, i := range f.order {
		n := &f.nodes[i]
		if n.up != none && rest[n.up] > 0 && n.held == 1 {
			n.held, n.joined, rest[i] = f.nodes[n.up].held, true, rest[n.up]-1
		}
	}
}

func (f *forest) find(chunk uint64) int32 {
	at, ok := slices.BinarySearchFunc(f.nodes, chunk, func(n node, chunk uint64) int { return cmp.Compare(n.Chunk, chunk) })
	if !ok {
		return none
	}
	return int32(at)
}
