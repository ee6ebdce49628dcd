package admin

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/api/strict"
	"github.com/warmring/warmring/routing"
)

// maxFleet bounds the body of a write, in bytes: a fleet of some ten thousand
// backends.
const maxFleet = 4 << 20

// Bounds of a lease's time; a longer one than the leader allows is cut there.
const (
	minTTL = time.Second
	maxTTL = 24 * time.Hour
)

// sourceLease is the Source of backends that registered themselves.
const sourceLease = "lease"

func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFleet))
	if err != nil {
		return nil, &invalidError{error: err}
	}
	return text, nil
}

// decode reads a JSON object over v.
func decode(text []byte, v any) error {
	if err := strict.JSON(text, v); err != nil {
		return &invalidError{error: err}
	}
	return nil
}

// flag is a boolean of the query.
func flag(r *http.Request, name string) (bool, error) {
	switch text := r.URL.Query().Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, invalidf(name, "%s=%q: must be true or false", name, text)
	}
}

// change is a route that writes: make reads the request once and returns the plan.
func (a *Admin) change(make func(r *http.Request, body []byte) (order, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := read(w, r)
		if err != nil {
			a.refuse(w, err)
			return
		}
		o, err := make(r, body)
		o.body = body
		if err == nil && !o.force {
			o.force, err = flag(r, "force")
		}
		if err != nil {
			a.refuse(w, err)
			return
		}
		out, err := a.commit(r, o)
		if err != nil {
			a.refuse(w, err)
			return
		}
		a.wrote(w, out.epoch)
	}
}

// putBackend adds a backend or changes one; fields that are left out stay as they are. A backend at its address keeps its
// state, unless it drains: that is cancelled.
func putBackend(r *http.Request, body []byte) (order, error) {
	id := r.PathValue("id")
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		wanted := fleet.Backend{ID: id}
		wanted.SetDefaults()
		old, known := backendOf(e, id)
		if known {
			wanted = fleet.Backend{ID: id, URL: old.URL, Endpoint: old.Endpoint, Variant: old.Variant, Weight: old.Weight, MaxInflight: old.MaxInflight}
		}
		if err := decode(body, &wanted); err != nil {
			return routing.Change{}, err
		}
		switch {
		case wanted.ID != id:
			return routing.Change{}, invalidf("id", "id: %q is not the one in the path, %q", wanted.ID, id)
		case wanted.URL == "":
			return routing.Change{}, invalidf("url", "url: a new backend needs one, such as http://10.0.0.1:8000")
		}
		if known && wanted.Endpoint != old.Endpoint && wanted.Variant == old.Variant {
			wanted.Variant = "" // the old endpoint's says nothing
		}
		b := wanted.Routing(e.Endpoints(), routing.Joining)
		if known && old.URL == b.URL && old.State != routing.Draining {
			b.State = old.State
		}
		return routing.Change{PutBackends: []routing.Backend{b}}, nil
	}}, nil
}

func putWeight(r *http.Request, body []byte) (order, error) {
	var wanted WeightRequest
	if err := decode(body, &wanted); err != nil {
		return order{}, err
	}
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		b, err := knownBackend(e, r.PathValue("id"))
		b.Weight = wanted.Weight
		return routing.Change{PutBackends: []routing.Backend{b}}, err
	}}, nil
}

func drainBackend(r *http.Request, _ []byte) (order, error) {
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		b, err := knownBackend(e, r.PathValue("id"))
		return routing.Change{Drain: []string{b.ID}}, err
	}}, nil
}

func removeBackend(r *http.Request, _ []byte) (order, error) {
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		b, err := knownBackend(e, r.PathValue("id"))
		return routing.Change{RemoveBackends: []string{b.ID}}, err
	}}, nil
}

func putEndpoint(r *http.Request, body []byte) (order, error) {
	name := r.PathValue("name")
	wanted := fleet.Endpoint{Name: name}
	if err := decode(body, &wanted); err != nil {
		return order{}, err
	}
	if wanted.Name != name {
		return order{}, invalidf("name", "name: %q is not the one in the path, %q", wanted.Name, name)
	}
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		return fleet.Fleet{Endpoints: []fleet.Endpoint{wanted}}.Change(e, routing.Joining, false), nil
	}}, nil
}

func removeEndpoint(r *http.Request, _ []byte) (order, error) {
	name := r.PathValue("name")
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		if !e.Has(name) {
			return routing.Change{}, &notFoundError{"name", "there is no endpoint " + strconv.Quote(name) + " in epoch " + e.ID()}
		}
		var left []string
		for _, b := range e.Backends() {
			if b.Endpoint == name {
				left = append(left, b.ID)
			}
		}
		if len(left) > 0 {
			more := ""
			if len(left) > maxIDs {
				left, more = left[:maxIDs], " and more"
			}
			return routing.Change{}, &routing.ChangeError{
				Path: "endpoints[" + name + "]",
				Msg:  "still has backends, remove or move them first: " + strings.Join(left, ", ") + more,
			}
		}
		return routing.Change{RemoveEndpoints: []string{name}}, nil
	}}, nil
}

func backendOf(e *routing.Epoch, id string) (routing.Backend, bool) {
	list := e.Backends()
	i := slices.IndexFunc(list, func(b routing.Backend) bool { return b.ID == id })
	if i < 0 {
		return routing.Backend{}, false
	}
	return list[i], true
}

func knownBackend(e *routing.Epoch, id string) (routing.Backend, error) {
	b, ok := backendOf(e, id)
	if !ok {
		return b, &notFoundError{"id", "there is no backend " + strconv.Quote(id) + " in epoch " + e.ID()}
	}
	return b, nil
}
