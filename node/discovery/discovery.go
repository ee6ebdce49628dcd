// Package discovery finds backends: by names in DNS that are looked up again and again, and by leases that backends take
// themselves. It hands over full lists, so that a change that was missed is made good by the next.
package discovery

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/node/plan"
)

// Deps is what a Discovery works with.
type Deps struct {
	Lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	LookupSRV func(ctx context.Context, name string) ([]*net.SRV, error)
	OnChange  func() // Found would return something else; must not block
	Log       *slog.Logger
}

// Discovery looks names up.
type Discovery struct {
	deps    Deps
	sources []DNSConfig

	mu     sync.Mutex              // guards what follows
	lists  map[string][]plan.Found // by source; what it listed when it last did, sorted
	broken map[string]bool         // sources that gave no answer when last asked, or were not asked yet
}

// New returns a Discovery that has found nothing yet.
func New(cfg Config, deps Deps) *Discovery {
	d := &Discovery{deps: deps, sources: cfg.DNS, lists: map[string][]plan.Found{}, broken: map[string]bool{}}
	for _, dns := range cfg.DNS {
		d.broken[dns.source()] = true
	}
	return d
}

// Found returns what the sources list, in their order, and which of them gave no answer when last asked. Those keep what
// they listed before.
func (d *Discovery) Found() (found []plan.Found, broken map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dns := range d.sources {
		found = append(found, d.lists[dns.source()]...)
	}
	return found, maps.Clone(d.broken)
}

// Run looks the names up until ctx ends.
func (d *Discovery) Run(ctx context.Context) error {
	var sources sync.WaitGroup
	for _, dns := range d.sources {
		sources.Go(func() { d.follow(ctx, dns) })
	}
	<-ctx.Done()
	sources.Wait()
	return nil
}

// follow looks one name up, at once and then after each interval, give or take a tenth: replicas that started together
// do not ask together ever after.
func (d *Discovery) follow(ctx context.Context, dns DNSConfig) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		list, err := d.resolve(ctx, dns)
		if ctx.Err() != nil {
			return
		}
		failed = d.report(dns, len(list), err, failed)
		if d.keep(dns.source(), list, err != nil) {
			d.deps.OnChange()
		}
		timer.Reset(dns.Interval*9/10 + rand.N(dns.Interval/5))
	}
}

// report logs that a source broke, in another way than before, or answers again. It returns how it is broken.
func (d *Discovery) report(dns DNSConfig, backends int, err error, before string) string {
	switch {
	case err == nil && before != "":
		d.deps.Log.Info("discovery answers again", slog.String("source", dns.source()), slog.Int("backends", backends))
	case err != nil && err.Error() != before:
		d.deps.Log.Warn("discovery failed, the last list stays", slog.String("source", dns.source()), slog.Any("error", err))
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// keep stores what a source said. It reports whether anything changed.
func (d *Discovery) keep(source string, list []plan.Found, broken bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := d.broken[source] != broken
	d.broken[source] = broken
	if !broken && !slices.Equal(list, d.lists[source]) {
		d.lists[source], changed = list, true
	}
	return changed
}
