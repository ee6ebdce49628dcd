package sim

import "fmt"

// rules are what must hold in every cluster, whatever happens to it.
type rules struct {
	leaders map[term]string
	digests map[epoch]seen
	last    map[string]map[int64]State // by router and start
}

// term is one of the many that each founding counts from 1.
type term struct {
	cluster            string
	generation, number uint64
}

type epoch struct {
	cluster            string
	generation, number uint64
}

// seen is a digest and who had it first.
type seen struct {
	digest uint64
	router string
}

func newRules() *rules {
	return &rules{leaders: map[term]string{}, digests: map[epoch]seen{}, last: map[string]map[int64]State{}}
}

// look compares what routers say with each other and with what was said before.
func (r *rules) look(states []State) error {
	for _, s := range states {
		if err := r.lookAt(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *rules) lookAt(s State) error {
	if s.leads() {
		t := term{s.Cluster, s.Founding, s.Term}
		if other, ok := r.leaders[t]; ok && other != s.Router {
			return fmt.Errorf("two leaders in term %d: %s and %s", s.Term, other, s.Router)
		}
		r.leaders[t] = s.Router
	}
	if s.Generation == 0 && s.Number == 0 {
		return nil
	}
	id := epoch{s.Cluster, s.Generation, s.Number}
	if first, ok := r.digests[id]; s.Clustered && s.Cluster == "" {
		// It follows a cluster that it has not joined yet.
	} else if !ok {
		r.digests[id] = seen{s.Digest, s.Router}
	} else if first.digest != s.Digest {
		return fmt.Errorf("two values for epoch %d.%d: %016x at %s and %016x at %s", s.Generation, s.Number, first.digest, first.router, s.Digest, s.Router)
	}
	if r.last[s.Router] == nil {
		r.last[s.Router] = map[int64]State{}
	}
	if was := r.last[s.Router][s.Start]; s.Generation < was.Generation || s.Generation == was.Generation && s.Number < was.Number {
		return fmt.Errorf("%s went back from epoch %d.%d to %d.%d", s.Router, was.Generation, was.Number, s.Generation, s.Number)
	}
	r.last[s.Router][s.Start] = s
	return nil
}
