package routing

import "fmt"

// State is a model server's agreed stage of life.
type State uint8

// The states, in the order in which a model server passes them. Only an Active
// one is given requests.
const (
	Joining State = iota
	Active
	Draining
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Active:
		return "active"
	case Draining:
		return "draining"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the state's name; an undefined state is an error.
func (s State) MarshalText() ([]byte, error) {
	if s > Draining {
		return nil, fmt.Errorf("undefined state %d", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(text []byte) error {
	for _, known := range []State{Joining, Active, Draining} {
		if string(text) == known.String() {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("unknown state %q: want joining, active or draining", text)
}

// Backend is one model server as the replicas agreed on it.
type Backend struct {
	ID       string `json:"id"`
	URL      string `json:"url"` // http:// or https://, host:port
	Endpoint string `json:"endpoint"`
	Variant  string `json:"variant"`
	// Weight is its share of its variant's keys relative to the others'; > 0.
	Weight float64 `json:"weight"`
	// MaxInflight is a hard cap of requests in flight from all replicas together; 0
	// for none. A replica knows the others' counts a moment late: several that take
	// the last slot at once pass it by one each.
	MaxInflight int   `json:"max_inflight,omitempty"`
	State       State `json:"state"`
	// Incarnation rises when the same ID returns at a new address: the cache is
	// cold then and the counts start anew. Apply assigns it.
	Incarnation uint64 `json:"incarnation"`
	// Source is who lists it: "dns:NAME" or "lease", empty when it was put by hand
	// (configuration file, admin API).
	Source string `json:"source,omitempty"`
}
