// Package admin is a router's admin listener: what it knows, as JSON; what a
// request would do; changes to the fleet; the dashboard; metrics and profiles. The types of its answers are those
// that the command line decodes.
package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// Picker is this router's view of the fleet; *routing.Picker is one.
type Picker interface {
	Epoch() *routing.Epoch
	Snapshot(now time.Time) []routing.Load
	Explain(pl *routing.Place, now time.Time) []routing.Candidate
	PromptTokens(pl *routing.Place) int
}

// Deps are the parts of a node that an Admin shows.
type Deps struct {
	Picker  Picker
	Window  int                         // how much of a body the data plane reads to place it, in bytes; 0: all
	Queued  func() int                  // requests that wait for a slot; nil: none can
	Ready   func() error                // nil: always ready
	Metrics http.Handler                // for /metrics; nil: no such route
	Traffic func(now time.Time) Traffic // of the last minutes; nil: not known
	Fleet   Fleet                       // nil: the fleet cannot be changed here
	Members func() []Member             // by name; nil: this router is alone
	Cluster func() ClusterStatus        // nil: this router is alone
	Epochs  func() []EpochInfo          // newest first, at most 64; nil: not known
	Log     *slog.Logger
	Router  string           // its name
	Version string           // of the program
	Started time.Time        // when the router began
	Now     func() time.Time // nil: time.Now
}

// Admin serves the admin routes. It is safe for concurrent use.
type Admin struct {
	cfg    Config
	deps   Deps
	mux    *http.ServeMux
	token  []byte // its SHA-256; nil: none is asked for
	policy string // the page's Content-Security-Policy
	// browsers refuses writes that a page from elsewhere makes a browser send.
	browsers *http.CrossOriginProtection
}

// maxBody bounds a body to explain, in bytes.
const maxBody = 32 << 20

//go:embed openapi.json
var document []byte

// New makes an Admin from a valid Config; it reads the token file and starts
// nothing.
func New(cfg Config, deps Deps) (*Admin, error) {
	a := &Admin{cfg: cfg, deps: deps, mux: http.NewServeMux(), policy: pagePolicy(page), browsers: http.NewCrossOriginProtection()}
	if a.deps.Now == nil {
		a.deps.Now = time.Now
	}
	if cfg.TokenFile != "" {
		text, err := os.ReadFile(cfg.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("admin.token_file: %w", err)
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return nil, fmt.Errorf("admin.token_file: %s is empty", cfg.TokenFile)
		}
		sum := sha256.Sum256([]byte(token))
		a.token = sum[:]
	}
	a.routes()
	return a, nil
}

// route is one method and path of the API.
type route struct {
	pattern string // of http.ServeMux
	handle  http.HandlerFunc
}

// reads and writes are the API; the document describes each.
func (a *Admin) reads() []route {
	return []route{
		{"GET /admin/v1/status", a.status},
		{"GET /admin/v1/members", a.members},
		{"GET /admin/v1/epoch", a.epoch},
		{"GET /admin/v1/epochs", a.epochs},
		{"GET /admin/v1/endpoints", a.endpoints},
		{"GET /admin/v1/backends", a.backends},
		{"POST /admin/v1/explain", a.explain},
		{"GET /admin/v1/snapshot", a.snapshot},
		{"GET /admin/v1/openapi.json", a.openapi},
	}
}

func (a *Admin) writes() []route {
	return []route{
		{"PUT /admin/v1/fleet", a.apply},
		{"PUT /admin/v1/backends/{id}", a.change(putBackend)},
		{"DELETE /admin/v1/backends/{id}", a.change(removeBackend)},
		{"POST /admin/v1/backends/{id}/drain", a.change(drainBackend)},
		{"PUT /admin/v1/backends/{id}/weight", a.change(putWeight)},
		{"PUT /admin/v1/endpoints/{name}", a.change(putEndpoint)},
		{"DELETE /admin/v1/endpoints/{name}", a.change(removeEndpoint)},
		{"PUT /admin/v1/leases/{id}", a.putLease},
		{"DELETE /admin/v1/leases/{id}", a.endLease},
	}
}

func (a *Admin) routes() {
	for _, r := range append(a.reads(), a.writes()...) {
		a.mux.HandleFunc(r.pattern, r.handle)
	}
	a.mux.HandleFunc("GET "+pagePath+"{$}", a.ui)
	a.mux.HandleFunc("GET /ui", a.toPage)
	if a.deps.Metrics != nil {
		a.mux.Handle("GET /metrics", a.deps.Metrics)
	}
	if a.cfg.Pprof {
		a.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		a.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		a.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		a.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		a.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
}

// Handler serves the admin routes.
func (a *Admin) Handler() http.Handler { return a }

// Server returns a server for the admin routes that is not started.
func (a *Admin) Server() *http.Server {
	return &http.Server{
		Addr:              a.cfg.Listen,
		Handler:           a,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(a.deps.Log.Handler(), slog.LevelDebug),
	}
}

// ServeHTTP asks for the token and passes the request on to its route.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.authorised(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		a.fail(w, http.StatusUnauthorized, errToken)
		return
	}
	if err := a.browsers.Check(r); err != nil {
		a.fail(w, http.StatusForbidden, fmt.Errorf("a page of another origin cannot change the fleet: %w", err))
		return
	}
	if _, pattern := a.mux.Handler(r); pattern == "" {
		a.notFound(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

var errToken = errors.New("missing or wrong token: send it as `Authorization: Bearer TOKEN`")

func (a *Admin) authorised(r *http.Request) bool {
	if a.token == nil || r.URL.Path == pagePath || r.URL.Path == "/ui" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], a.token) == 1
}

// notFound answers in JSON what the mux would in plain text: no such route, or
// the wrong method for it.
func (a *Admin) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s takes %s", r.URL.Path, strings.Join(allowed, " or ")))
		return
	}
	a.fail(w, http.StatusNotFound, fmt.Errorf("no such route: %s", r.URL.Path))
}

func (a *Admin) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	a.send(w, document)
}

// fail answers with err as JSON.
func (a *Admin) fail(w http.ResponseWriter, status int, err error) {
	a.write(w, status, Error{ErrorDetail{Message: err.Error()}})
}

// write answers with v as JSON.
func (a *Admin) write(w http.ResponseWriter, status int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		a.deps.Log.Error("cannot encode an admin answer", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	a.send(w, append(text, '\n'))
}

func (a *Admin) send(w http.ResponseWriter, text []byte) {
	if _, err := w.Write(text); err != nil {
		a.deps.Log.Debug("an admin client went away", "error", err)
	}
}
