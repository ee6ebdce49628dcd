package admin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmring/warmring/routing"
)

// Step is one thing that differs between two epochs.
type Step struct {
	What   string        `json:"what"` // "endpoint" or "backend"
	ID     string        `json:"id"`
	Action string        `json:"action"` // "add", "change", "drain" or "remove"
	Fields []FieldChange `json:"fields"` // by name; empty for "remove"
}

// FieldChange is one field of a Step.
type FieldChange struct {
	Field string `json:"field"` // like "variants[main].weight"
	Old   string `json:"old"`   // empty: it was not there
	New   string `json:"new"`   // empty: it is no longer there
}

// Compare returns what differs from one epoch to another, endpoints first, each by
// name.
func Compare(was, is *routing.Epoch) []Step {
	steps := compareAll("endpoint", was.Endpoints(), is.Endpoints(), func(e *routing.Endpoint) string { return e.Name }, endpointFields)
	backends := compareAll("backend", was.Backends(), is.Backends(), func(b *routing.Backend) string { return b.ID }, backendFields)
	for i, s := range backends {
		if s.Action == "change" && slices.ContainsFunc(s.Fields, drains) {
			backends[i].Action = "drain"
		}
	}
	return append(steps, backends...)
}

func drains(f FieldChange) bool { return f.Field == "state" && f.New == routing.Draining.String() }

// compareAll walks two lists that are sorted by id.
func compareAll[T any](what string, was, is []T, id func(*T) string, fields func(*T) []FieldChange) []Step {
	steps := []Step{}
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(is) == 0 || len(was) > 0 && id(&was[0]) < id(&is[0]):
			steps = append(steps, Step{What: what, ID: id(&was[0]), Action: "remove", Fields: []FieldChange{}})
			was = was[1:]
		case len(was) == 0 || id(&is[0]) < id(&was[0]):
			steps = append(steps, Step{What: what, ID: id(&is[0]), Action: "add", Fields: fields(&is[0])})
			is = is[1:]
		default:
			if changed := changedFields(fields(&was[0]), fields(&is[0])); len(changed) > 0 {
				steps = append(steps, Step{What: what, ID: id(&is[0]), Action: "change", Fields: changed})
			}
			was, is = was[1:], is[1:]
		}
	}
	return steps
}

// changedFields are the differences of two lists that hold a thing's fields as New.
func changedFields(was, is []FieldChange) []FieldChange {
	find := func(list []FieldChange, field string) string {
		i := slices.IndexFunc(list, func(f FieldChange) bool { return f.Field == field })
		if i < 0 {
			return ""
		}
		return list[i].New
	}
	var out []FieldChange
	for _, f := range is {
		if old := find(was, f.Field); old != f.New {
			out = append(out, FieldChange{Field: f.Field, Old: old, New: f.New})
		}
	}
	for _, f := range was {
		if find(is, f.Field) == "" {
			out = append(out, FieldChange{Field: f.Field, Old: f.New})
		}
	}
	return out
}

// fieldList collects fields that have a value.
type fieldList []FieldChange

func (l *fieldList) add(field, value string) {
	if value != "" {
		*l = append(*l, FieldChange{Field: field, New: value})
	}
}

func (l *fieldList) number(field string, n int) {
	if n != 0 {
		l.add(field, strconv.Itoa(n))
	}
}

func (l *fieldList) weight(field string, w float64) {
	l.add(field, strconv.FormatFloat(w, 'g', -1, 64))
}

func endpointFields(e *routing.Endpoint) []FieldChange {
	var l fieldList
	l.add("aliases", strings.Join(e.Aliases, ", "))
	l.add("adapters", strings.Join(e.Adapters, ", "))
	names := make([]string, 0, len(e.Variants))
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	l.add("variants", strings.Join(names, ", "))
	for _, v := range e.Variants {
		path := "variants[" + v.Name + "]."
		l.weight(path+"weight", v.Weight)
		l.add(path+"routing.strategy", string(v.Policy.Strategy))
		l.add(path+"routing.prefix_length", prefixLength(&v.Policy))
		l.number(path+"routing.concurrency_threshold", v.Policy.ConcurrencyThreshold)
	}
	return l
}

func backendFields(b *routing.Backend) []FieldChange {
	var l fieldList
	l.add("url", b.URL)
	l.add("endpoint", b.Endpoint)
	l.add("variant", b.Variant)
	l.weight("weight", b.Weight)
	l.number("max_inflight", b.MaxInflight)
	l.add("state", b.State.String())
	l.add("source", b.Source)
	return l
}

// maxIDs bounds the names in one EpochChange.
const maxIDs = 16

// Summary says what an epoch changed, as pairs of a kind and the ids: "endpoints"
// or "backends" with "added", "changed" or "removed"; for backends that
// changed their state also "joining", "active" or "draining".
func Summary(was, is *routing.Epoch) []EpochChange {
	out := []EpochChange{}
	for _, s := range Compare(was, is) {
		kind := s.What + "s " + s.past()
		i := slices.IndexFunc(out, func(c EpochChange) bool { return c.Kind == kind })
		if i < 0 {
			i = len(out)
			out = append(out, EpochChange{Kind: kind, IDs: []string{}})
		}
		out[i].Count++
		if len(out[i].IDs) < maxIDs {
			out[i].IDs = append(out[i].IDs, s.ID)
		}
	}
	return out
}

// past is what happened, in a word; a backend's new state says more than that it changed.
func (s *Step) past() string {
	switch s.Action {
	case "add":
		return "added"
	case "remove":
		return "removed"
	}
	for _, f := range s.Fields {
		if f.Field == "state" {
			return f.New
		}
	}
	return "changed"
}
