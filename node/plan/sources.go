package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/warmring/warmring/routing"
)

// placed is the backend that f stands for, joining, with the names that f leaves out.
func placed(endpoints []routing.Endpoint, f Found) routing.Backend {
	b := routing.Backend{
		ID: f.ID, URL: f.URL, Endpoint: f.Endpoint, Variant: f.Variant, Weight: f.Weight, MaxInflight: f.MaxInflight,
		Source: f.Source, State: routing.Joining,
	}
	if b.Endpoint == "" && len(endpoints) == 1 {
		b.Endpoint = endpoints[0].Name
	}
	i := slices.IndexFunc(endpoints, func(ep routing.Endpoint) bool { return ep.Name == b.Endpoint })
	if b.Variant == "" && i >= 0 {
		b.Variant = endpoints[i].Variants[0].Name
	}
	return b
}

// listen finds out what is listed for each id, and which sources said nothing.
func (r *round) listen() {
	r.listed = make(map[string]Found, len(r.in.Found))
	r.silent = maps.Clone(r.in.Broken)
	if r.silent == nil {
		r.silent = map[string]bool{}
	}
	speaks := map[string]bool{"": true, Lease: true}
	for _, f := range r.in.Found {
		speaks[f.Source] = true
		if other, known := r.listed[f.ID]; f.Source != "" && (!known || r.before(f, other)) {
			r.listed[f.ID] = f
		}
	}
	for _, b := range r.backends {
		r.silent[b.Source] = r.silent[b.Source] || !speaks[b.Source]
	}
	for _, source := range slices.Sorted(maps.Keys(r.silent)) {
		if r.silent[source] {
			r.hold(HeldBroken, source, "no answer, or an empty one: what it listed stays")
		}
	}
}

// before orders what is listed for one id: the owner's word goes first; the rest only makes the choice the same each time.
func (r *round) before(f, other Found) bool {
	owner := r.have[f.ID].Source
	if (f.Source == owner) != (other.Source == owner) {
		return f.Source == owner
	}
	return cmp.Or(cmp.Compare(f.Source, other.Source), cmp.Compare(f.URL, other.URL), cmp.Compare(f.Endpoint, other.Endpoint),
		cmp.Compare(f.Variant, other.Variant), cmp.Compare(f.Weight, other.Weight), cmp.Compare(f.MaxInflight, other.MaxInflight)) < 0
}

// unlisted reports that b's source spoke and did not list it, nor did any other.
func (r *round) unlisted(b *routing.Backend) bool {
	_, listed := r.listed[b.ID]
	return b.Source != "" && !r.silent[b.Source] && !listed
}

// enter brings in what the sources list.
func (r *round) enter() {
	endpoints := r.in.Epoch.Endpoints()
	holders := r.holders()
	for _, id := range slices.Sorted(maps.Keys(r.listed)) {
		b := placed(endpoints, r.listed[id])
		if other, taken := holders[b.URL]; taken && other != id {
			r.hold(HeldTaken, id, fmt.Sprintf("%s lists it at the address of %s", b.Source, other))
			continue
		}
		holders[b.URL] = id
		if have, known := r.have[id]; known {
			r.meet(have, b)
		} else if r.calm(id) {
			r.put(b, Joined, "listed by "+b.Source)
		}
	}
}

// holders says which id has each address. One that its source dropped, or lists elsewhere now, may be replaced there.
func (r *round) holders() map[string]string {
	holders := make(map[string]string, len(r.backends))
	for _, b := range r.backends {
		f, listed := r.listed[b.ID]
		if b.Source == "" || b.State != routing.Draining && (!listed || f.URL == b.URL) {
			holders[b.URL] = b.ID
		}
	}
	return holders
}

// meet brings a backend to what is listed for it, if that is for its source to say.
func (r *round) meet(have, b routing.Backend) {
	elsewhere := have.URL != b.URL
	switch {
	case have.Source == "":
		if elsewhere && have.State != routing.Draining {
			r.hold(HeldTaken, b.ID, b.Source+" lists another address than the one that was agreed on directly")
		} else if elsewhere && r.calm(b.ID) { // what was drained made room for another
			r.put(b, Moved, fmt.Sprintf("listed by %s at %s", b.Source, b.URL))
		}
	case have.Source != b.Source && r.silent[have.Source]: // its owner may list it still
	case elsewhere || have.Endpoint != b.Endpoint || have.Variant != b.Variant:
		if r.calm(b.ID) && r.shrinks(&have) {
			r.put(b, Moved, fmt.Sprintf("listed by %s at %s for %s/%s", b.Source, b.URL, b.Endpoint, b.Variant))
		}
	case have.State == routing.Draining:
		if r.calm(b.ID) {
			r.put(b, Returned, "listed again by "+b.Source)
		}
	case have.Source != b.Source:
		heir := have // a source gives the numbers when a backend joins; from then on people do
		if heir.Source = b.Source; r.calm(b.ID) {
			r.put(heir, Inherited, "listed by "+b.Source+" now")
		}
	}
}

// calm reports whether a backend may come or change now: one that flaps waits.
func (r *round) calm(id string) bool {
	f := r.planner.flaps[id]
	if wait := f.wait(); !r.until(f.at, wait) {
		r.hold(HeldFlapping, id, fmt.Sprintf("came and went too often: waits %s", wait))
		return false
	}
	return true
}

// leave drains what the sources list no more. Each backend that joins holds one back, so that a fleet which is replaced
// serves on; but a source is not ignored for longer than a drain may take.
func (r *round) leave() {
	var active []*routing.Backend
	for i := range r.backends {
		b := &r.backends[i]
		switch {
		case b.State == routing.Draining || r.taken[b.ID] || !r.unlisted(b):
		case b.State == routing.Active:
			active = append(active, b)
		default:
			r.drain(b)
		}
	}
	spare := map[pool]int{}
	for _, b := range active {
		spare[poolOf(b)]++
	}
	for _, b := range active {
		held := r.in.Now.Sub(r.memory(b).unlisted) < r.planner.cfg.DrainLimit && spare[poolOf(b)] <= r.limits.pools[poolOf(b)].joining
		if held {
			r.hold(HeldFloor, b.ID, b.Source+" lists it no more: it stays until its replacement is ready")
		} else if r.shrinks(b) {
			spare[poolOf(b)]--
			r.drain(b)
		}
	}
}

func (r *round) drain(b *routing.Backend) {
	gone := *b
	gone.State = routing.Draining
	r.put(gone, Unlisted, b.Source+" lists it no more")
}

// shrinks reports whether b may be taken out of service now.
func (r *round) shrinks(b *routing.Backend) bool {
	if b.State == routing.Active && r.limits.room[b.Endpoint] == 0 {
		r.hold(HeldShrink, b.ID, "enough of its endpoint leave with this epoch")
		r.again = min(r.again, r.planner.cfg.EpochGap)
		return false
	}
	return true
}
