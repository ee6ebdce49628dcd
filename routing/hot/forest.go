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
	up      int32 // place of the parent, -1 for the first of a chain
	servers int   // 2 or more: hot
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
	f.nodes[i] = node{Count: c, up: none}
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

// held finds over how many servers each chunk was spread by the table before: by place, 0 for those that were not in it.
// Of a run only the ends are known; but hashes cover what is before them, so the parents of its last chunk are the run. If
// that is not counted any more, all that is less than the run's length behind its first chunk passes for it.
func (f *forest) held(before []Run) []int {
	old, rest := make([]int, len(f.nodes)), make([]int, len(f.nodes))
	for _, r := range before {
		first, last := f.find(r.First), f.find(r.Last)
		if first != none {
			old[first] = max(old[first], r.Servers)
		}
		if last == none && first != none {
			rest[first] = max(rest[first], r.Length-1)
		}
		for i, n := last, 0; i != none && n < min(r.Length, len(f.nodes)); i, n = f.nodes[i].up, n+1 {
			old[i] = max(old[i], r.Servers)
		}
	}
	for _, i := range f.order {
		up := f.nodes[i].up
		if up != none && rest[up] > 0 && old[i] == 0 {
			old[i], rest[i] = old[up], rest[up]-1
		}
	}
	return old
}

func (f *forest) find(chunk uint64) int32 {
	at, ok := slices.BinarySearchFunc(f.nodes, chunk, func(n node, chunk uint64) int { return cmp.Compare(n.Chunk, chunk) })
	if !ok {
		return none
	}
	return int32(at)
}

// spread gives each chunk its servers. Where hysteresis would leave a chunk more than its parent, it gets the parent's: the
// rest cannot be reached.
func (f *forest) spread(old []int, copies float64, cfg Config) {
	for _, i := range f.order {
		n := &f.nodes[i]
		n.servers = cfg.wanted(n.Visits, copies*n.Visits/f.requests, old[i])
		if n.up != none {
			n.servers = min(n.servers, f.nodes[n.up].servers)
		}
		if n.servers < 2 {
			n.servers = 0
		}
	}
}
