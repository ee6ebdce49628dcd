// Package probe asks backends whether they are well: whether they answer, whether they have the model, and whether they
// make tokens. Each replica probes the backends that it observes. It also asks all of them about their KV caches, which says
// nothing of their health.
package probe

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/warmring/warmring/gossip/loads"
)

// crowd is how many backends are asked at once.
const crowd = 64

// Target is a backend to probe.
type Target struct {
	ID          string
	Incarnation uint64
	URL         string
	Endpoint    string   // whose key it is asked with
	Models      []string // it is ready when it lists one of these; empty: any
}

func (t *Target) key() loads.Key { return loads.Key{ID: t.ID, Incarnation: t.Incarnation} }

// Deps is what a Prober works with.
type Deps struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnVerdict is called when the verdict on a backend changed, with loads.Unprobed when it is watched no more. Calls for
	// one backend come one after another. It must not block.
	OnVerdict func(loads.Key, loads.Probe)
	// OnCache is called whenever one of SetBackends answered. One last call may come after SetBackends took a backend out.
	// It must not block. nil: nobody is asked.
	OnCache func(loads.Key, Cache)
	// Authorization is that header's value for the backends of an endpoint, "" for none. nil: none for any.
	Authorization func(endpoint string) string
	Log           *slog.Logger
}

// question is a request to a backend.
func (d *Deps) question(ctx context.Context, url, endpoint string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "warmring-probe")
	if d.Authorization != nil {
		if value := d.Authorization(endpoint); value != "" {
			req.Header.Set("Authorization", value)
		}
	}
	return req, nil
}

// Prober probes.
type Prober struct {
	cfg     Config
	deps    Deps
	slots   chan struct{} // one for each backend that is being asked
	changed chan struct{} // one place: wanted was replaced
	scraper *scraper

	mu     sync.Mutex // guards wanted
	wanted []Target
}

// New returns a Prober without targets.
func New(cfg Config, deps Deps) *Prober {
	return &Prober{
		cfg: cfg, deps: deps, slots: make(chan struct{}, crowd), changed: make(chan struct{}, 1), scraper: newScraper(deps),
	}
}

// Watch replaces the targets; the slice is the Prober's from then on. It does not block, and may be called before and during
// Run.
func (p *Prober) Watch(targets []Target) {
	p.mu.Lock()
	p.wanted = targets
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Run probes until ctx ends. Then nothing of it is left.
func (p *Prober) Run(ctx context.Context) error {
	var scraping sync.WaitGroup
	defer scraping.Wait()
	scraping.Go(func() { p.scraper.run(ctx) })
	watches := map[loads.Key]*watch{}
	for {
		select {
		case <-ctx.Done():
			for _, w := range watches {
				w.stop()
			}
			return nil
		case <-p.changed:
			p.follow(ctx, watches)
		}
	}
}

// follow starts and ends watches, so that there is one for each wanted target.
func (p *Prober) follow(ctx context.Context, watches map[loads.Key]*watch) {
	p.mu.Lock()
	wanted := make(map[loads.Key]*Target, len(p.wanted))
	for i := range p.wanted {
		wanted[p.wanted[i].key()] = &p.wanted[i]
	}
	p.mu.Unlock()

	var gone []*watch
	for key, w := range watches {
		if wanted[key] == nil {
			delete(watches, key)
			w.cancel() // all of them, before the first is waited for
			gone = append(gone, w)
		}
	}
	for _, w := range gone {
		w.stop()
		w.say(loads.Unprobed, "watched no more")
	}
	for key, target := range wanted {
		if w := watches[key]; w != nil {
			w.target.Store(target) // its models may have changed
			continue
		}
		watches[key] = p.watch(ctx, target)
	}
}
