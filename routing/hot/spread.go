package hot

// division gives chunks their servers and divides them into runs. A unit of visits is what one server is there for.
type division struct {
	*forest
	cfg    Config
	unit   float64
	starts []float64 // by place: visits where the run of a chunk starts
	heir   []int32   // by place: the first hot child, none without one
}

// divide goes down the chains. A run ends where the number of servers changes, where the chain forks among hot chunks, and
// where more than half a unit of visits has left since its start: who leaves a run midway is placed as if all of the run were
// as hot as its start.
func (f *forest) divide(cfg Config, unit float64) {
	d := &division{f, cfg, unit, make([]float64, len(f.nodes)), make([]int32, len(f.nodes))}
	for i := range d.heir {
		d.heir[i] = none
	}
	for _, i := range f.order {
		n := &f.nodes[i]
		n.servers, d.starts[i] = cfg.wanted(n.Visits, unit, n.held), n.Visits
		if n.up != none {
			d.follow(i, n)
		}
		if n.servers < 2 {
			n.servers, n.joins = 1, false
		}
		if n.up != none && n.servers > 1 {
			d.inherit(i, n.up)
		}
	}
}

// follow has a chunk join its parent's run, with the servers of that, if it belongs there. Where it would have more servers
// than its parent, it gets the parent's: the rest cannot be reached.
func (d *division) follow(i int32, n *node) {
	up := d.nodes[n.up].servers
	left := d.starts[n.up] - n.Visits
	switch {
	case n.held > 1 && !n.joined: // it began a run
		n.joins = n.servers >= up && joins(left, d.unit)
	case n.joined:
		n.joins = !parts(left, d.unit) && !shrinks(n.Visits, d.unit, up)
	case n.Visits >= d.cfg.MinVisits:
		n.joins = !parts(left, d.unit) && n.Visits > shrink*float64(up-1)*d.unit
	}
	if n.joins {
		n.servers, d.starts[i] = up, d.starts[n.up]
	}
	n.servers = min(n.servers, up)
}

// inherit keeps a run from going two ways: of several hot children none is in the run of its parent.
func (d *division) inherit(i, up int32) {
	if d.heir[up] == none {
		d.heir[up] = i
		return
	}
	for _, child := range []int32{i, d.heir[up]} {
		n := &d.nodes[child]
		n.joins, d.starts[child] = false, n.Visits
	}
}

// stretch is a run in the making.
type stretch struct {
	Run
	rank float64 // not above that of the run that leads to it
}

// runs lists the runs, each after the one that leads to it.
func (f *forest) runs() []stretch {
	var runs []stretch
	in := make([]int32, len(f.nodes)) // the run that a hot chunk is in
	for _, i := range f.order {
		n := &f.nodes[i]
		if n.servers < 2 {
			continue
		}
		if n.joins {
			r := &runs[in[n.up]]
			r.Last, in[i] = n.Chunk, in[n.up]
			r.Length++
			continue
		}
		rank := n.rank()
		if n.up != none {
			rank = min(rank, runs[in[n.up]].rank)
		}
		in[i] = int32(len(runs))
		runs = append(runs, stretch{Run{First: n.Chunk, Last: n.Chunk, Length: 1, Servers: n.servers}, rank})
	}
	return runs
}

// rank is the visits by which runs are chosen where not all have room. Of as many, what was hot is chosen before what was not.
func (n *node) rank() float64 {
	if n.held > 1 {
		return n.Visits + noise(n.Visits)
	}
	return n.Visits
}
