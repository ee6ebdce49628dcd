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
	HotRuns   *int      `json:"hot_runs"` // of the hot table; null before the first
	InFlight  int       `json:"in_flight"`
	Queued    int       `json:"queued"` // requests that wait for a slot
	// Cluster is absent where the router is alone.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
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
	Source       string     `json:"source,omitempty"` // who lists it: "dns:NAME", "lease"; absent: it was put by hand
	Incarnation  uint64     `json:"incarnation"`
	InFlight     int        `json:"in_flight"`          // from this router
	PeerInFlight int        `json:"peers_in_flight"`    // from all others, as last heard
	Prefill      int64      `json:"prefill"`            // token equivalents of this router's prompts without a first token yet
	PeerPrefill  int64      `json:"peers_prefill"`      // of all others', as last heard
	PeersEjected int        `json:"peers_ejected"`      // how many others have ejected it
	Rumoured     bool       `json:"rumoured,omitempty"` // this router believes them and sends it nothing
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
	HotBytes     int         `json:"hot_bytes"`     // of the text that is in the hot table
	HotLevels    []HotLevel  `json:"hot_levels,omitempty"`
	Home         string      `json:"home"`       // "" without an active backend
	Candidates   []Candidate `json:"candidates"` // the home first
}

// HotLevel is a run of the hot table that the text goes through.
type HotLevel struct {
	First   string `json:"first"`   // hash of its first chunk, hexadecimal
	Chunks  int    `json:"chunks"`  // how long it is
	Servers int    `json:"servers"` // to how many model servers it narrows the candidates
}

// Candidate is one model server in the map's order, with the terms of the choice.
type Candidate struct {
	Rank         int     `json:"rank"` // from 0
	ID           string  `json:"id"`
	URL          string  `json:"url"`
	InFlight     int     `json:"in_flight"`       // from this router
	PeerInFlight int     `json:"peers_in_flight"` // from all others
	Prefill      int64   `json:"prefill"`         // token equivalents, of this router's and the others' prompts
	Have         int     `json:"have"`            // tokens of the prompt it is expected to hold
	Hot          bool    `json:"hot"`             // it shares the hot part of the prompt
	Placed       int     `json:"placed"`          // tokens of the prompt that it was sent before
	Work         float64 `json:"work"`            // that the prompt would be there, token equivalents
	Pace         float64 `json:"pace"`            // how many times slower than the others it is
	Late         float64 `json:"late"`            // how many times longer than expected its oldest request waits
	Filled       float64 `json:"filled"`          // nobody holds the prompt: how much of its cache was ever written to; decides between equal costs
	Beyond       bool    `json:"beyond"`          // nobody holds the prompt, and it is too far down the ranking for a first touch
	Cost         float64 `json:"cost"`
	Eligible     bool    `json:"eligible"`
	Reason       string  `json:"reason,omitempty"` // why it is not eligible
}

// Snapshot is what the dashboard shows: one router's last five minutes. A figure
// that is not known is null, never 0.
type Snapshot struct {
	At           time.Time         `json:"at"`
	Router       string            `json:"router"`
	Version      string            `json:"version"`
	Started      time.Time         `json:"started"`
	Ready        bool              `json:"ready"`
	NotReady     string            `json:"not_ready,omitempty"` // why
	Epoch        string            `json:"epoch"`               // generation.number
	Digest       string            `json:"digest"`              // hexadecimal
	InFlight     int               `json:"in_flight"`
	Queued       int               `json:"queued"`          // requests that wait for a slot
	Now          Figures           `json:"now"`             // of about the last ten seconds
	Decisions    map[string]uint64 `json:"decisions"`       // choices of a server in that time, by reason; a reason without choices is left out
	OverheadP50  *float64          `json:"overhead_p50_ms"` // that this router adds, median
	HistoryStep  float64           `json:"history_step_s"`
	HistoryUntil time.Time         `json:"history_until"` // where the last step of History ends
	History      []Figures         `json:"history"`       // oldest first, at most 60
	Backends     []BackendTraffic  `json:"backends"`      // of the fleet, by id
	Changes      []Change          `json:"changes"`       // newest first, at most 50
	Cluster      *ClusterStatus    `json:"cluster"`       // null: the router is alone
	Members      []Member          `json:"members"`       // by name, this router included; empty: it is alone
}

// Figures are about the requests that ended in a span of time.
type Figures struct {
	Seconds  float64  `json:"seconds"` // that the span is long
	Requests float64  `json:"requests_per_s"`
	Errors   float64  `json:"errors_per_s"` // 5xx, 429 and broken answers, as clients saw them
	HitRate  *float64 `json:"hit_rate"`     // 0..1: cached of all prompt tokens, as the servers report them
	TTFTp50  *float64 `json:"ttft_p50_ms"`  // streamed answers only
	TTFTp90  *float64 `json:"ttft_p90_ms"`
	InFlight *float64 `json:"in_flight"` // mean
}

// BackendTraffic is one model server's state and its figures of about the last
// minute.
type BackendTraffic struct {
	ID           string     `json:"id"`
	Endpoint     string     `json:"endpoint"`
	Variant      string     `json:"variant"`
	State        string     `json:"state"`
	MaxInFlight  int        `json:"max_inflight"`    // 0: no limit
	Source       string     `json:"source"`          // who lists it: "dns:NAME", "lease"; empty: it was put by hand
	InFlight     int        `json:"in_flight"`       // from this router
	PeerInFlight int        `json:"peers_in_flight"` // from all others, as last heard
	Prefill      int64      `json:"prefill"`         // token equivalents of this router's prompts without a first token yet
	PeerPrefill  int64      `json:"peers_prefill"`   // of all others', as last heard
	PeersEjected int        `json:"peers_ejected"`   // how many others have ejected it
	Rumoured     bool       `json:"rumoured"`        // this router believes them and sends it nothing
	EjectedUntil *time.Time `json:"ejected_until"`   // null when it is not
	BusyUntil    *time.Time `json:"busy_until"`      // null when it is not
	Share        *float64   `json:"share"`           // 0..1: of all servers' requests
	Minute       Figures    `json:"minute"`
}

// Change is something that happened to the fleet.
type Change struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"` // the servers or endpoints that it is about
	Epoch   string    `json:"epoch"`   // that carries it; empty for what only this router saw
}

// Written is the answer to a write.
type Written struct {
	Epoch  string `json:"epoch"`  // that carries it
	Digest string `json:"digest"` // hexadecimal
}

// Applied is the answer to a whole fleet.
type Applied struct {
	Base       string `json:"base"`   // the epoch that was compared with
	Epoch      string `json:"epoch"`  // that carries the difference; empty for a dry run
	Digest     string `json:"digest"` // hexadecimal; empty for a dry run
	DryRun     bool   `json:"dry_run"`
	Difference []Step `json:"difference"` // what was, or would be, done; empty: nothing to do
}

// Leased is the answer to a lease.
type Leased struct {
	ID    string  `json:"id"`
	TTL   float64 `json:"ttl_s"` // renew before; a third of it is a good time
	State string  `json:"state"` // of the backend on this router now; empty: not in the fleet yet
	Epoch string  `json:"epoch"` // that says so
}

// LeaseRequest is the body of a lease.
type LeaseRequest struct {
	URL         string        `yaml:"url"`          // http://host:port
	Endpoint    string        `yaml:"endpoint"`     // empty: the only one
	Variant     string        `yaml:"variant"`      // empty: the endpoint's first
	Weight      float64       `yaml:"weight"`       // 1 unless given
	MaxInflight int           `yaml:"max_inflight"` // 0: no limit
	TTL         time.Duration `yaml:"ttl"`          // as in "30s", 1 s to 24 h
}

// WeightRequest is the body of a change of a backend's weight.
type WeightRequest struct {
	Weight float64 `yaml:"weight"` // above 0
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
