// Package fleet is the form in which people write a fleet down: the endpoints and
// backends of a router's configuration file, of a file to apply and of the
// admin API's body.
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmring/warmring/routing"
)

// Fleet is all endpoints and backends.
type Fleet struct {
	Endpoints []Endpoint `yaml:"endpoints" json:"endpoints"`
	Backends  []Backend  `yaml:"backends" json:"backends"`
}

// Endpoint is what clients name as their model.
type Endpoint struct {
	Name     string    `yaml:"name" json:"name" about:"what clients send as model"`
	Aliases  []string  `yaml:"aliases,omitempty" json:"aliases,omitempty" about:"further names"`
	Adapters []string  `yaml:"adapters,omitempty" json:"adapters,omitempty" about:"names of adapters (LoRA) that its backends have loaded"`
	Variants []Variant `yaml:"variants,omitempty" json:"variants,omitempty" about:"parts of its backends; none: one called main, PREFIX_AWARE with prefix_length auto"`
}

// Variant is a part of an endpoint's backends with its own share of the traffic.
type Variant struct {
	Name    string  `yaml:"name" json:"name" about:"name of the variant"`
	Weight  float64 `yaml:"weight" json:"weight" about:"share of the endpoint's traffic, relative to the other variants; 0: only requests that name it"`
	Routing Routing `yaml:"routing" json:"routing"`
}

// SetDefaults makes v the variant of an endpoint that names none.
func (v *Variant) SetDefaults() {
	*v = Variant{Name: "main", Weight: 1, Routing: Routing{Strategy: routing.PrefixAware}}
}

// Routing is how a variant's requests are spread.
type Routing struct {
	Strategy             routing.Strategy `yaml:"strategy" json:"strategy" about:"RANDOM, LEAST_OUTSTANDING_REQUESTS or PREFIX_AWARE"`
	PrefixLength         PrefixLength     `yaml:"prefix_length" json:"prefix_length" about:"how much of a prompt counts: auto, or 1024 to 65536 characters"`
	ConcurrencyThreshold int              `yaml:"concurrency_threshold" json:"concurrency_threshold" about:"requests in flight on a backend, 1 to 1024, beyond which others take over; 0: not set"`
}

// PrefixLength is a number of characters, or 0 for auto.
type PrefixLength int

// UnmarshalText reads "auto" or a number.
func (l *PrefixLength) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*l = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is not auto or a number of characters", text)
	}
	*l = PrefixLength(n)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (l PrefixLength) MarshalText() ([]byte, error) {
	if l == 0 {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(l), 10), nil
}

// Backend is one model server.
type Backend struct {
	ID          string  `yaml:"id" json:"id" about:"name of the backend; empty: host:port of its URL"`
	URL         string  `yaml:"url" json:"url" about:"http://host:port, or https"`
	Endpoint    string  `yaml:"endpoint" json:"endpoint" about:"endpoint that it serves; empty: the only one"`
	Variant     string  `yaml:"variant" json:"variant" about:"variant that it belongs to; empty: the endpoint's first"`
	Weight      float64 `yaml:"weight" json:"weight" about:"capacity relative to the others, above 0 to 1000000"`
	MaxInflight int     `yaml:"max_inflight" json:"max_inflight" about:"most requests at once; 0: no limit"`
}

// SetDefaults makes b's weight that of a backend that names none.
func (b *Backend) SetDefaults() { b.Weight = 1 }

// Routing is the endpoint in the domain's terms.
func (e Endpoint) Routing() routing.Endpoint {
	out := routing.Endpoint{Name: e.Name, Aliases: e.Aliases, Adapters: e.Adapters}
	if len(e.Variants) == 0 {
		e.Variants = make([]Variant, 1)
		e.Variants[0].SetDefaults()
	}
	for _, v := range e.Variants {
		out.Variants = append(out.Variants, routing.Variant{Name: v.Name, Weight: v.Weight, Policy: routing.Policy{
			Strategy: v.Routing.Strategy, PrefixLength: int(v.Routing.PrefixLength), ConcurrencyThreshold: v.Routing.ConcurrencyThreshold,
		}})
	}
	return out
}

// Routing is the backend in the domain's terms and the given state. The endpoints
// are those that it can belong to: they give the names that it leaves out.
func (b Backend) Routing(endpoints []routing.Endpoint, state routing.State) routing.Backend {
	b.URL = address(b.URL)
	if b.ID == "" {
		_, host, _ := strings.Cut(b.URL, "://")
		b.ID = host[strings.LastIndexByte(host, '@')+1:] // errors show it
	}
	if b.Endpoint == "" && len(endpoints) == 1 {
		b.Endpoint = endpoints[0].Name
	}
	for _, e := range endpoints {
		if e.Name == b.Endpoint && len(e.Variants) > 0 {
			b.Variant = cmp.Or(b.Variant, e.Variants[0].Name)
		}
	}
	return routing.Backend{
		ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, Weight: b.Weight, MaxInflight: b.MaxInflight, State: state,
	}
}

// address is url with the port that its scheme implies if it names none, and without a slash at the end: one model server
// has one address, however people write it. What has more to it is left for the domain to refuse.
func address(url string) string {
	scheme, host, _ := strings.Cut(url, "://")
	host = strings.TrimSuffix(host, "/")
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	if port == "" || host == "" || strings.ContainsAny(host, "/?#@") {
		return url
	}
	if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') { // neither has one: both are -1
		host += port
	}
	return scheme + "://" + host
}

// Routing is the fleet in the domain's terms, its backends in the given state.
// Besides its own endpoints, its backends may belong to those of others.
func (f Fleet) Routing(state routing.State, others ...routing.Endpoint) ([]routing.Endpoint, []routing.Backend) {
	endpoints := make([]routing.Endpoint, 0, len(f.Endpoints))
	for _, e := range f.Endpoints {
		endpoints = append(endpoints, e.Routing())
	}
	others = slices.DeleteFunc(slices.Clone(others), func(o routing.Endpoint) bool {
		return slices.ContainsFunc(endpoints, func(e routing.Endpoint) bool { return e.Name == o.Name })
	})
	all := slices.Concat(endpoints, others)
	backends := make([]routing.Backend, 0, len(f.Backends))
	for i, b := range f.Backends {
		if b.Endpoint == "" && len(endpoints) == 1 {
			b.Endpoint = endpoints[0].Name
		}
		backend := b.Routing(all, state)
		backend.ID = cmp.Or(backend.ID, fmt.Sprintf("#%d", i)) // only names it in the error about its URL
		backends = append(backends, backend)
	}
	return endpoints, backends
}

// Validate reports everything that is wrong with a fleet that stands alone: one
// *routing.ChangeError for each field.
func (f Fleet) Validate() error {
	endpoints, backends := f.Routing(routing.Active)
	_, err := routing.NewEpoch(1, 0).Apply(routing.Change{PutEndpoints: endpoints, PutBackends: backends})
	return errors.Join(f.CheckURLs(), err)
}

// CheckURLs reports the backends that have the address of an earlier one.
func (f Fleet) CheckURLs() error {
	var errs []error
	owner := map[string]int{}
	for i, b := range f.Backends {
		url := address(b.URL)
		if first, taken := owner[url]; taken {
			errs = append(errs, &routing.ChangeError{
				Path: fmt.Sprintf("backends[%d].url", i), Msg: fmt.Sprintf("%q is the address of backends[%d] too", routing.WithoutUser(b.URL), first),
			})
		} else {
			owner[url] = i
		}
	}
	return errors.Join(errs...)
}
