package admin

import "time"

// Status is one router's state.
type Status struct {
	Router    string    `json:"router"`
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"`
	NotReady  string    `json:"not_ready,omitempty"` // why
	Epoch     string    `json:"epoch"`               // generation.number
	Digest    string    `json:"digest"`              // hexadecimal
	Endpoints int       `json:"endpoints"`
	Backends  int       `json:"backends"`
	InFlight  int       `json:"in_flight"`
	Queued    int       `json:"queued"` // requests that wait for a slot
}

// Epoch is the agreed state of the fleet, by name.
type Epoch struct {
	ID         string `json:"id"`
	Generation uint64 `json:"generation"`
	Number     uint64 `json:"number"`
	Digest     string `json:"digest"` // hexadecimal
	Endpoints  int    `json:"endpoints"`
	Backends   int    `json:"backends"`
}

// EndpointStatus is one endpoint and how its variants are spread.
type EndpointStatus struct {
	Name     string          `json:"name"`
	Aliases  []string        `json:"aliases,omitempty"`
	Adapters []string        `json:"adapters,omitempty"`
	Variants []VariantStatus `json:"variants"`
}

// VariantStatus is one variant of an endpoint.
type VariantStatus struct {
	Name                 string  `json:"name"`
	Weight               float64 `json:"weight"`
	Strategy             string  `json:"strategy"`
	PrefixLength         string  `json:"prefix_length,omitempty"` // characters, or "auto"
	ConcurrencyThreshold int     `json:"concurrency_threshold,omitempty"`
	Backends             int     `json:"backends"`
	Active               int     `json:"active"` // of Backends
	InFlight             int     `json:"in_flight"`
}

// BackendStatus is one model server, as agreed and as this router sees it.
type BackendStatus struct {
	ID           string     `json:"id"`
	URL          string     `json:"url"`
	Endpoint     string     `json:"endpoint"`
	Variant      string     `json:"variant"`
	State        string     `json:"state"`
	Weight       float64    `json:"weight"`
	MaxInFlight  int        `json:"max_inflight,omitempty"`
	Incarnation  uint64     `json:"incarnation"`
	InFlight     int        `json:"in_flight"`
	Prefill      int64      `json:"prefill"` // token equivalents of prompts without a first token yet
	Picks        uint64     `json:"picks"`
	Failures     int        `json:"failures,omitempty"`      // in a row
	EjectedUntil *time.Time `json:"ejected_until,omitempty"` // absent when it is not
	BusyUntil    *time.Time `json:"busy_until,omitempty"`    // absent when it is not
	Gone         bool       `json:"gone,omitempty"`          // left the fleet, finishes what it has
}

// Explanation is how a body would be routed now. Nothing was sent or reserved.
type Explanation struct {
	Epoch        string      `json:"epoch"`
	Endpoint     string      `json:"endpoint"`
	Variant      string      `json:"variant"`
	Model        string      `json:"model,omitempty"`
	Adapter      string      `json:"adapter,omitempty"`
	Tenant       string      `json:"tenant,omitempty"`
	Strategy     string      `json:"strategy"`
	Key          string      `json:"key"`           // hash that ranks the candidates, hexadecimal
	TextBytes    int         `json:"text_bytes"`    // of canonical text that the key can depend on
	Depth        int         `json:"depth"`         // chunks of the text
	PromptTokens int         `json:"prompt_tokens"` // estimated
	Home         string      `json:"home"`          // "" without an active backend
	Candidates   []Candidate `json:"candidates"`    // the home first
}

// Candidate is one model server in the map's order, with the terms of the choice.
type Candidate struct {
	Rank     int     `json:"rank"` // from 0
	ID       string  `json:"id"`
	URL      string  `json:"url"`
	InFlight int     `json:"in_flight"`
	Prefill  int64   `json:"prefill"` // token equivalents
	Have     int     `json:"have"`    // tokens of the prompt it is expected to hold
	Cost     float64 `json:"cost"`
	Eligible bool    `json:"eligible"`
	Reason   string  `json:"reason,omitempty"` // why it is not eligible
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what is wrong, and with which part of the request.
type ErrorDetail struct {
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
}
