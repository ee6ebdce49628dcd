package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/api/http1"
	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// Proxy carries a mapped request to a backend; *proxy.Proxy does.
type Proxy interface {
	Serve(ctx context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error)
}

// Observer is told of every request on the data plane, once, at its end.
type Observer interface {
	Observe(ctx context.Context, r *Record)
}

// Record is what is known of a request when it is over.
type Record struct {
	Route   string // from a bounded set, such as chat_completions
	Dialect Dialect
	Status  int    // that the client was sent; 499 when it left first
	Code    string // of the error, from a bounded set; "" when there was none
	Err     error
	// Result is the proxy's. It is zero when the request never came so far, but
	// for Endpoint where that was known.
	proxy.Result
}

// Deps are the parts of a node that an API works with.
type Deps struct {
	Epoch    func() *routing.Epoch  // the current one; never nil
	Counts   func(draw uint64) bool // whether a request is counted for hot tables; nil: each is
	Keys     *Keys                  // nil: read from the Config's files
	Proxy    Proxy
	Observer Observer // nil: nobody is told
	// Tracing turns spans on. Without it, Tracer and Propagator are not used
	// and trace headers pass as the client sent them.
	Tracing    bool
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
	Ready      func() error     // nil: always ready
	RouterName string           // for X-Warmring-Router
	Now        func() time.Time // nil: time.Now
}

// API is the data plane's HTTP edge. It is safe for concurrent use.
type API struct {
	cfg       Config
	deps      Deps
	table     []condition
	validator *sagemaker.Validator
	buffers   buffers
	exchanges sync.Pool // of *exchange
	scanners  sync.Pool // of *openai.Scanner
	tls       *tls.Config
}

// New makes an API from a valid Config; it reads the TLS files and starts
// nothing.
func New(cfg Config, deps Deps) (*API, error) {
	if deps.Keys == nil {
		keys, err := OpenKeys(cfg)
		if err != nil {
			return nil, err
		}
		deps.Keys = keys
	}
	a := &API{
		cfg: cfg, deps: deps, table: conditions(), validator: sagemaker.NewValidator(),
		scanners: sync.Pool{New: func() any { return new(openai.Scanner) }},
	}
	a.buffers.window, a.buffers.limit = int64(cfg.Limits.ScanWindow), int64(cfg.Limits.Buffered)
	if a.deps.Now == nil {
		a.deps.Now = time.Now
	}
	if a.deps.Counts == nil {
		a.deps.Counts = func(uint64) bool { return true }
	}
	if cfg.TLS.CertFile != "" {
		cert, err := newCertificate(cfg.TLS, deps.Log)
		if err != nil {
			return nil, err
		}
		a.tls = &tls.Config{GetCertificate: cert.get, MinVersion: tls.VersionTLS12}
	}
	return a, nil
}

// Handler serves the data plane.
func (a *API) Handler() http.Handler { return a }

// Server returns a server for the data plane that is not started: HTTP/1.1,
// HTTP/2, and HTTP/2 in clear text, all of it in TLS if the Config has a
// certificate. It runs h, which is the API or what was put around it.
func (a *API) Server(h http.Handler) *http1.Server {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return http1.New(http1.Config{
		Handler:           h,
		ReadHeaderTimeout: a.cfg.Timeouts.Header,
		IdleTimeout:       a.cfg.Timeouts.Idle,
		MaxHeaderBytes:    int(a.cfg.Limits.Header),
		TLS:               a.tls,
		HTTP2: &http.Server{
			Handler:           h,
			Protocols:         &protocols,
			ReadHeaderTimeout: a.cfg.Timeouts.Header,
			IdleTimeout:       a.cfg.Timeouts.Idle,
			MaxHeaderBytes:    int(a.cfg.Limits.Header),
			ErrorLog:          slog.NewLogLogger(a.deps.Log.Handler(), slog.LevelDebug),
		},
		ErrorLog: a.deps.Log,
	})
}

// ServeHTTP is a request's way through the package.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := a.open(w, r)
	defer x.close()
	x.serve()
}

// mayAbort: the panic that net/http knows as "close this connection".
func mayAbort(v any) bool {
	err, ok := v.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}
