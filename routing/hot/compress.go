package hot

// stretch is a run in the making.
type stretch struct {
	Run
	visits float64 // at its start
}

// compress lists the runs of the hot chunks, each after the one that leads to it. A run ends where the number of servers
// changes, where the chain forks among hot chunks, and where more than step visits have left since its start: at half a
// step of servers, since who leaves a run midway is placed as if all of the run were as hot as its start.
func (f *forest) compress(step float64) []stretch {
	var runs []stretch
	in := make([]int32, len(f.nodes)) // the run that a hot chunk is in
	forks := f.forks()
	for _, i := range f.order {
		n := &f.nodes[i]
		if n.servers == 0 {
			continue
		}
		if up := n.up; up != none && !forks[up] && f.nodes[up].servers == n.servers {
			r := &runs[in[up]]
			if r.visits-n.Visits <= step {
				r.Last, in[i] = n.Chunk, in[up]
				r.Length++
				continue
			}
		}
		in[i] = int32(len(runs))
		runs = append(runs, stretch{Run{First: n.Chunk, Last: n.Chunk, Length: 1, Servers: n.servers}, n.Visits})
	}
	return runs
}

// forks tells by place which chunks have two or more hot children. Two hot children are more than a step apart from their
// parent anyway, but for counts that cannot be: then a run would go two ways.
func (f *forest) forks() []bool {
	forks, children := make([]bool, len(f.nodes)), make([]bool, len(f.nodes))
	for _, i := range f.order {
		n := &f.nodes[i]
		if n.servers == 0 || n.up == none {
			continue
		}
		forks[n.up] = children[n.up]
		children[n.up] = true
	}
	return forks
}
