package routing

// Strategy says how a variant's requests are spread; the names are SageMaker's.
type Strategy string

// The strategies. See DESIGN.md for what each costs.
const (
	// Random spreads by weight alone.
	Random Strategy = "RANDOM"
	// LeastOutstandingRequests takes the fewest requests in flight per weight.
	LeastOutstandingRequests Strategy = "LEAST_OUTSTANDING_REQUESTS"
	// PrefixAware sends requests that begin alike to the same model server.
	PrefixAware Strategy = "PREFIX_AWARE"
)

// Ranges that a Policy must keep.
const (
	MinPrefixLength         = 1024
	MaxPrefixLength         = 65536
	MaxConcurrencyThreshold = 1024
)

// Policy is how one variant's requests are spread.
type Policy struct {
	Strategy Strategy `json:"strategy"`
	// PrefixLength is the number of characters (bytes on invoke) that make the
	// key, MinPrefixLength to MaxPrefixLength; 0 is `auto`.
	PrefixLength int `json:"prefix_length,omitempty"`
	// ConcurrencyThreshold is 1 to MaxConcurrencyThreshold requests in flight on
	// one model server, 0 for not set. With a fixed PrefixLength it is where
	// requests spill (not set: a bound relative to the mean load); with `auto` it
	// is a hard cap only.
	ConcurrencyThreshold int `json:"concurrency_threshold,omitempty"`
}

// form is a policy's strategy with the two forms of PrefixAware told apart.
type form uint8

const (
	random form = iota
	least
	fixed
	auto
)

func (p *Policy) form() form {
	switch {
	case p.Strategy == Random:
		return random
	case p.Strategy == LeastOutstandingRequests:
		return least
	case p.PrefixLength > 0:
		return fixed
	}
	return auto
}

// Variant is one deployment of an endpoint's model, with model servers of its own.
type Variant struct {
	Name string `json:"name"`
	// Weight is the variant's share of the endpoint's traffic relative to the
	// other variants'; 0 takes requests only by name.
	Weight float64 `json:"weight"`
	Policy Policy  `json:"policy"`
}

// Endpoint is what a client addresses.
type Endpoint struct {
	Name string `json:"name"`
	// Aliases are other names for the endpoint in a request's model field.
	Aliases []string `json:"aliases,omitempty"`
	// Adapters are the LoRA adapters that its model servers load; as a request's
	// model they select the endpoint and are part of the prefix key.
	Adapters []string  `json:"adapters,omitempty"`
	Variants []Variant `json:"variants"`
}
