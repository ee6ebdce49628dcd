package routing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Change is a step from one epoch to the next; all of it is applied or nothing.
// Things are removed before others are put and drained last.
type Change struct {
	PutEndpoints    []Endpoint `json:"put_endpoints,omitempty"`
	RemoveEndpoints []string   `json:"remove_endpoints,omitempty"`
	PutBackends     []Backend  `json:"put_backends,omitempty"`
	RemoveBackends  []string   `json:"remove_backends,omitempty"`
	Drain           []string   `json:"drain,omitempty"` // by people: a source that still lists one does not bring it back
	Hot             *HotTable  `json:"hot,omitempty"`   // replaces the hot table; nil keeps it
}

// Empty reports whether c changes nothing.
func (c *Change) Empty() bool {
	return len(c.PutEndpoints)+len(c.RemoveEndpoints)+len(c.PutBackends)+len(c.RemoveBackends)+len(c.Drain) == 0 && c.Hot == nil
}

// ChangeError says what is wrong with one field of a change.
type ChangeError struct {
	Path string // like "backends[gpu-3].url"
	Msg  string
}

func (e *ChangeError) Error() string { return e.Path + ": " + e.Msg }

// Apply returns the epoch after the change, with the next number. The receiver is
// not touched. An error joins one *ChangeError for each field that is wrong.
func (e *Epoch) Apply(c Change) (*Epoch, error) {
	d := draft{
		generation: e.generation, number: e.number + 1,
		endpoints: make(map[string]Endpoint, len(e.endpoints)+len(c.PutEndpoints)),
		backends:  make(map[string]Backend, len(e.backends)+len(c.PutBackends)),
	}
	for _, ep := range e.endpoints {
		d.endpoints[ep.Name] = ep
	}
	for _, b := range e.backends {
		d.backends[b.ID] = b
	}
	d.applyEndpoints(&c)
	d.applyBackends(&c)
	next, err := d.epoch(e.salt, e.hot, c.Hot)
	if err != nil {
		return nil, err
	}
	next.before = e.before
	if c.Hot != nil {
		next.before = e.levels
	}
	return next, nil
}

// epoch checks the draft and compiles it. hot is the present hot table, put the one
// that replaces it, if any.
func (d *draft) epoch(salt uint64, hot, put *HotTable) (*Epoch, error) {
	d.checkNames()
	d.checkBackends()
	d.checkHot(put)
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	next := &Epoch{generation: d.generation, number: d.number, salt: salt, hot: hot}
	if put != nil {
		next.hot = put.clone()
	}
	next.endpoints = slices.SortedFunc(maps.Values(d.endpoints), func(a, b Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	next.backends = slices.SortedFunc(maps.Values(d.backends), func(a, b Backend) int { return cmp.Compare(a.ID, b.ID) })
	next.compile()
	return next, nil
}

// draft is the next epoch's content under construction and what is wrong with it.
type draft struct {
	generation, number uint64
	endpoints          map[string]Endpoint
	backends           map[string]Backend
	errs               []error
}

func (d *draft) fail(path, format string, args ...any) {
	d.errs = append(d.errs, &ChangeError{Path: path, Msg: fmt.Sprintf(format, args...)})
}

func (d *draft) applyEndpoints(c *Change) {
	for _, name := range c.RemoveEndpoints {
		if _, ok := d.endpoints[name]; !ok {
			d.fail(at("endpoints", name), "there is no such endpoint to remove")
		}
		delete(d.endpoints, name)
	}
	put := make(map[string]bool, len(c.PutEndpoints))
	for _, ep := range c.PutEndpoints {
		if put[ep.Name] {
			d.fail(at("endpoints", ep.Name), "is put twice")
		}
		put[ep.Name] = true
		if slices.Contains(c.RemoveEndpoints, ep.Name) {
			d.fail(at("endpoints", ep.Name), "is both put and removed")
		}
		d.endpoints[ep.Name] = cloneEndpoint(ep)
	}
}

func (d *draft) applyBackends(c *Change) {
	for _, id := range c.RemoveBackends {
		if _, ok := d.backends[id]; !ok {
			d.fail(at("backends", id), "there is no such backend to remove")
		}
		delete(d.backends, id)
	}
	put := make(map[string]bool, len(c.PutBackends))
	for _, b := range c.PutBackends {
		if put[b.ID] {
			d.fail(at("backends", b.ID), "is put twice")
		}
		put[b.ID] = true
		if slices.Contains(c.RemoveBackends, b.ID) {
			d.fail(at("backends", b.ID), "is both put and removed")
		}
		d.put(b)
	}
	for _, id := range c.Drain {
		b, ok := d.backends[id]
		if !ok {
			d.fail(at("backends", id), "there is no such backend to drain")
			continue
		}
		b.State, b.Source = Draining, "" // whoever asks for it takes it from its source
		d.backends[id] = b
	}
}

// put adds or replaces a backend. A new one's incarnation is above any that the id
// had before it was removed.
func (d *draft) put(b Backend) {
	old, known := d.backends[b.ID]
	switch {
	case !known:
		b.Incarnation = d.birth()
	case old.URL != b.URL:
		b.Incarnation = old.Incarnation + 1
	default:
		b.Incarnation = old.Incarnation
	}
	b.Variant = onlyVariant(d.endpoints, &b)
	d.backends[b.ID] = b
}

// birth is the incarnation of what is put for the first time: the epoch's number,
// above all numbers of the generations before it. An incarnation rises at most once
// an epoch, so it is never above the birth of its time.
func (d *draft) birth() uint64 { return (max(1, d.generation)-1)<<32 + d.number }

// at is the path of an element of a list that is known by name.
func at(list, name string) string { return list + "[" + name + "]" }
