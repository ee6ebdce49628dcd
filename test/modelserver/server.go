// Package modelserver simulates a vLLM server as far as routing can tell the
// difference: which prompts are cached, how long steps take in a batch, what
// the HTTP API and the metrics look like, and how servers fail.
//
// An answer is made of words that mean nothing and depend on the prompt alone,
// so every server gives the same one. Time is the time package's: in a
// testing/synctest bubble it is virtual.
package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is one simulated model server. New makes one.
type Server struct {
	cfg      Config
	engine   *engine
	faults   faults
	door     *door
	conns    *conns
	started  time.Time
	requests atomic.Int64
	ids      atomic.Int64
}

// New returns a server that works while Run does, or the errors of
// Config.Validate.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, engine: newEngine(cfg), door: newDoor(), conns: newConns(), started: time.Now()}
	return s, s.SetFault(cfg.Fault)
}

// Stats returns the counters of this moment.
func (s *Server) Stats() Stats {
	st := s.engine.snapshot()
	st.Requests = int(s.requests.Load())
	return st
}

// Fault returns the fault in force.
func (s *Server) Fault() Fault { return s.faults.current() }

// SetFault replaces the fault in force; Fault{} heals the server. It returns
// the errors of Fault.Validate, or that the address could not be listened on
// again after Refuse.
func (s *Server) SetFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults.set(f)
	s.engine.setPace(f.pace())
	err := s.door.set(f.Kind == Refuse)
	s.conns.setLimit(f.idleLimit())
	return err
}

// Run computes and, unless ln is nil, serves on ln until ctx ends. Then it
// closes ln, cuts all connections and waits for its goroutines. With a nil ln
// somebody else serves Handler. A server runs once.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var engine sync.WaitGroup
	defer engine.Wait()
	defer cancel()
	engine.Go(func() { s.engine.run(ctx) })
	if ln == nil {
		<-ctx.Done()
		return nil
	}
	return s.serve(ctx, ln)
}

// serve is Run's part over HTTP.
func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	s.door.attach(ln)
	srv := &http.Server{
		Handler:     s.Handler(),
		ConnState:   s.conns.state,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(s.door) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		_ = srv.Close() // nothing is lost: it cuts connections on purpose
		err = <-failed
	}
	_ = srv.Close()
	s.conns.open.Wait()
	if ctx.Err() != nil && (errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed)) {
		return nil
	}
	return fmt.Errorf("modelserver: %w", err)
}

// Handler returns the server's routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", s.handler(chat))
	mux.Handle("POST /v1/completions", s.handler(complete))
	mux.Handle("POST /v1/responses", s.handler(respond))
	mux.Handle("POST /v1/embeddings", s.handler(embed))
	mux.Handle("POST /invocations", s.handler(invoke))
	mux.Handle("POST /tokenize", s.handler(tokenize))
	mux.Handle("GET /v1/models", s.probe(s.serveModels))
	mux.Handle("GET /health", s.probe(healthy))
	mux.Handle("GET /ping", s.probe(healthy))
	mux.Handle("POST /ping", s.probe(healthy))
	mux.Handle("GET /metrics", s.probe(s.serveMetrics))
	mux.HandleFunc("GET /control/fault", s.serveFault)
	mux.HandleFunc("POST /control/fault", s.serveFault)
	mux.HandleFunc("GET /control/stats", s.serveStats)
	return mux
}

// healthy serves /health and /ping.
func healthy(http.ResponseWriter, *http.Request) {}

// serveModels serves GET /v1/models.
func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	data := []fields{}
	for i, name := range append([]string{s.cfg.Model}, s.cfg.Adapters...) {
		m := fields{
			"id": name, "object": "model", "created": 0, "owned_by": "vllm",
			"root": name, "parent": nil, "max_model_len": s.cfg.MaxContext,
		}
		if i > 0 {
			m["parent"] = s.cfg.Model
		}
		data = append(data, m)
	}
	writeJSON(w, fields{"object": "list", "data": data})
}

// serveFault reads and sets the fault in force.
func (s *Server) serveFault(w http.ResponseWriter, r *http.Request) {
	c := &call{Server: s, r: r, w: w, id: s.identify(w, r)}
	if r.Method == http.MethodPost {
		var f Fault
		err := c.read()
		if err == nil {
			err = decode(c.body, &f)
		}
		if err != nil {
			c.fail(err)
			return
		}
		if err := s.SetFault(f); err != nil { //nolint:contextcheck // the listener that it opens outlives the request
			c.fail(badRequest("", "%s", err))
			return
		}
	}
	writeJSON(w, s.Fault())
}

// serveStats serves GET /control/stats.
func (s *Server) serveStats(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Stats()) }

// writeJSON writes a body that no fault touches.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have left
}
