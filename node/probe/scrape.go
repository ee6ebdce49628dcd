package probe

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/gossip/loads"
)

const (
	// scrapers is how many backends are asked about their caches at once. It is apart from crowd, so that health never waits.
	scrapers = 16
	// scrapeLimit bounds one question.
	scrapeLimit = 2 * time.Second
	// scrapeEvery is the time between two answers of one backend, give or take a tenth.
	scrapeEvery = time.Minute
	// scrapeAgain is the time after the first failure; it doubles with each up to scrapeEvery.
	scrapeAgain = 5 * time.Second
)

// scraper asks backends about their KV caches. Every router needs to know of all backends, while health is asked only by a
// backend's observers, so it has targets of its own.
type scraper struct {
	deps             Deps
	client           *http.Client
	slots            chan struct{} // one for each backend that is being asked
	changed          chan struct{} // one place: wanted was replaced, or stale was added to
	answered, failed atomic.Uint64

	mu     sync.Mutex // guards what follows
	wanted map[source]bool
	stale  map[loads.Key]bool // to be asked at once
}

// source is where one answer comes from. A backend that moves is another source.
type source struct {
	key           loads.Key
	url, endpoint string
}

func newScraper(deps Deps) *scraper {
	return &scraper{deps: deps, client: newClient(deps.Dial, true), slots: make(chan struct{}, scrapers), changed: make(chan struct{}, 1), stale: map[loads.Key]bool{}}
}

// SetBackends replaces the backends that are asked about their caches: at once, every minute, and when one that is watched
// answers after it did not. They should be those that serve; Models is not used. Nobody is asked without OnCache, nor with the
// kind Never. It does not block, and may be called before and during Run.
func (p *Prober) SetBackends(targets []Target) {
	if p.deps.OnCache == nil || p.cfg.Kind == Never {
		return
	}
	wanted := make(map[source]bool, len(targets))
	for i := range targets {
		wanted[source{targets[i].key(), targets[i].URL, targets[i].Endpoint}] = true
	}
	p.scraper.mu.Lock()
	p.scraper.wanted = wanted
	p.scraper.mu.Unlock()
	p.scraper.wake()
}

// again has a backend asked at once, if it is one of SetBackends.
func (s *scraper) again(key loads.Key) {
	s.mu.Lock()
	s.stale[key] = true
	s.mu.Unlock()
	s.wake()
}

func (s *scraper) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Scrapes returns how often backends answered the question about their cache, and how often they failed to, ever.
func (p *Prober) Scrapes() (answered, failed uint64) {
	return p.scraper.answered.Load(), p.scraper.failed.Load()
}

// run asks until ctx ends. Then nothing of it is left.
func (s *scraper) run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	stops := map[source]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		s.mu.Lock()
		wanted, stale := s.wanted, s.stale
		s.stale = map[loads.Key]bool{}
		s.mu.Unlock()
		for src, stop := range stops {
			if !wanted[src] || stale[src.key] {
				stop()
				delete(stops, src)
			}
		}
		for src := range wanted {
			if stops[src] == nil {
				ctx, stop := context.WithCancel(ctx)
				stops[src] = stop
				asking.Go(func() { s.follow(ctx, src) })
			}
		}
	}
}

// follow asks one backend again and again.
func (s *scraper) follow(ctx context.Context, src source) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case s.slots <- struct{}{}:
		}
		told, err := s.ask(ctx, src)
		<-s.slots
		if ctx.Err() != nil {
			return
		}
		pause := scrapeEvery
		if err != nil { // what is known stays
			pause = min(pause, scrapeAgain<<min(failures, 8))
			failures++
			s.failed.Add(1)
			s.deps.Log.DebugContext(ctx, "cache not learnt", slog.String("backend", src.key.ID), slog.Any("error", err))
		} else {
			failures = 0
			s.answered.Add(1)
			s.deps.OnCache(src.key, told)
		}
		timer.Reset(pause*9/10 + rand.N(pause/5))
	}
}

// ask is one question. A backend that answers, and has no metrics or none that tell, has a cache of which nothing is known.
func (s *scraper) ask(ctx context.Context, src source) (Cache, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeLimit)
	defer cancel()
	req, err := s.deps.question(ctx, src.url+"/metrics", src.endpoint)
	if err != nil {
		return Cache{}, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return Cache{}, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is wanted from it
	switch classify(resp) {
	case up:
		return readCache(resp.Body)
	case unknown:
		return Cache{}, nil
	case failing, busy:
	}
	return Cache{}, fmt.Errorf("%s/metrics answers %s", src.url, resp.Status)
}
