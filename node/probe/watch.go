package probe

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/gossip/loads"
)

const (
	// shortest is the least time between two probes of one backend.
	shortest = 250 * time.Millisecond
	// longest is the most between two probes of a backend that is not ready, but for a fifth that chance adds: what begins to
	// serve gets traffic within a second.
	longest = 700 * time.Millisecond
	// strikes is how many probes in a row must fail.
	strikes = 3
	// measures is how often progress is looked at within Config.Stall.
	measures = 6
	// grudge is how long an engine that stalled counts as such after its work was taken away, unless it makes tokens: routers
	// give it no more, and without work nothing shows. It lasts for an agreement to take it out.
	grudge = time.Minute
)

// watch probes one backend. All but target belongs to its goroutine, and to who stopped that.
type watch struct {
	*Prober
	key    loads.Key
	target atomic.Pointer[Target]
	cancel context.CancelFunc
	done   sync.WaitGroup
	client *http.Client

	said     loads.Probe // the verdict as it was told
	path     string      // what it answers on; empty: not known yet
	failures int         // in a row
	idle     int         // probes in a row that did not find it ready
	engine   engine
	measured time.Time
	stuck    time.Time // when the engine was last seen stalled, with no token since; zero: it was not
}

func (p *Prober) watch(ctx context.Context, t *Target) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{Prober: p, key: t.key(), cancel: cancel, client: newClient(p.deps.Dial, false)}
	w.target.Store(t)
	if p.cfg.Kind == Never {
		w.say(loads.Ready, "not probed")
		return w
	}
	w.done.Go(func() { w.run(ctx) })
	return w
}

// stop ends the watch and returns when its goroutine has ended.
func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
}

func (w *watch) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !w.probe(ctx) {
			return
		}
		timer.Reset(w.pause(first))
	}
}

// probe asks once and tells the verdict if that changed. It reports whether ctx lives.
func (w *watch) probe(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case w.slots <- struct{}{}:
	}
	verdict, cause := w.judge(ctx)
	w.client.CloseIdleConnections() // each probe shows that a new connection can be made
	<-w.slots
	if ctx.Err() != nil {
		return false
	}
	w.say(verdict, cause)
	return true
}

// pause is how long to wait for the next probe. The first is drawn from the whole interval, so that backends that were
// found together are not asked together ever after.
func (w *watch) pause(first bool) time.Duration {
	if w.said == loads.Ready {
		w.idle = 0
		if first {
			return shortest + rand.N(w.cfg.Interval)
		}
		return w.cfg.Interval*9/10 + rand.N(w.cfg.Interval/5)
	}
	d := min(w.cfg.Interval, longest, shortest<<min(w.idle, 8))
	w.idle++
	return d + rand.N(d/5)
}

// judge turns the answers of one probe into a verdict and what led to it.
func (w *watch) judge(ctx context.Context) (loads.Probe, string) {
	target := w.target.Load()
	a := w.ask(ctx, target)
	if a.state == failing {
		w.failures++
		w.path, w.engine, w.stuck = "", engine{}, time.Time{}
		if w.failures >= strikes {
			return loads.Dead, a.cause
		}
		return loads.Unprobed, a.cause
	}
	if w.failures > 0 {
		w.scraper.again(w.key) // it may have been restarted
	}
	w.failures = 0
	if a.state == busy {
		if w.said == loads.Ready {
			return loads.Ready, a.cause
		}
		return loads.Unprobed, a.cause
	}
	if w.stalled(ctx, target) {
		return loads.Dead, "it has work and makes no tokens"
	}
	if cause := w.missing(ctx, target, a); cause != "" {
		return loads.Unprobed, cause
	}
	return loads.Ready, "it answers"
}

// stalled looks at the engine's progress when that is due. What is not measured has not stalled.
func (w *watch) stalled(ctx context.Context, t *Target) bool {
	if w.cfg.Stall == 0 {
		return false
	}
	if now := time.Now(); now.Sub(w.measured) >= w.cfg.Stall/measures {
		w.measured = now
		text := ""
		if a := w.get(ctx, t, "/metrics"); a.state == up {
			text = a.body
		}
		before := w.engine
		w.engine.observe(text, now)
		switch {
		case w.engine.tokens != before.tokens:
			w.stuck = time.Time{}
		case w.engine.stood > before.stood && w.engine.stood >= w.cfg.Stall:
			w.stuck = now
		}
	}
	if !w.stuck.IsZero() && time.Since(w.stuck) >= grudge {
		w.stuck, w.engine.stood = time.Time{}, 0 // believed: it has the whole of Stall again
	}
	return !w.stuck.IsZero()
}

func (w *watch) say(verdict loads.Probe, cause string) {
	if verdict == w.said {
		return
	}
	w.deps.Log.Info("probe verdict changed", slog.String("backend", w.key.ID), slog.Uint64("incarnation", w.key.Incarnation),
		slog.String("verdict", name(verdict)), slog.String("cause", cause))
	w.said = verdict
	w.deps.OnVerdict(w.key, verdict)
}

func name(p loads.Probe) string {
	switch p {
	case loads.Ready:
		return "ready"
	case loads.Dead:
		return "dead"
	default:
		return "unknown"
	}
}
