package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// seriesKey is a combination of labels. Its values come from the fleet and from closed sets, so their number is bounded.
type seriesKey struct {
	endpoint, variant, backend string
	route                      string
	code                       int
	decision                   routing.Decision
	class                      string // of the error; empty: none
}

// series are the metrics of one combination of labels, looked up once: that look-up costs more than all the counting.
type series struct {
	requests, attempts         prometheus.Counter
	errs, decisions            prometheus.Counter // nil: not counted
	prompt, cached, completion prometheus.Counter
	ttft, tpot, overhead       prometheus.Observer
}

// Observe counts one request that is over.
func (m *Metrics) Observe(_ context.Context, r *api.Record) {
	s := m.resolve(seriesKey{
		endpoint: r.Endpoint, variant: r.Variant, backend: r.Backend,
		route: r.Route, code: knownCode(r.Status), decision: r.Decision, class: errorClass(r),
	})
	s.requests.Inc()
	s.attempts.Add(float64(r.Attempts))
	if s.errs != nil {
		s.errs.Inc()
	}
	m.bytesIn.Add(float64(r.BytesIn))
	m.bytesOut.Add(float64(r.BytesOut))
	if r.Attempts == 0 {
		return // no backend saw it
	}
	if s.decisions != nil {
		s.decisions.Inc()
	}
	s.overhead.Observe(r.Overhead.Seconds())
	if u := r.Usage; u.Known {
		s.prompt.Add(float64(u.Prompt))
		s.cached.Add(float64(u.Cached))
		s.completion.Add(float64(u.Completion))
	}
	s.observePace(&r.Result)
}

func (s *series) observePace(r *proxy.Result) {
	if !hasPace(r) {
		return
	}
	s.ttft.Observe(r.FirstByte.Seconds())
	if rest := r.Usage.Completion - 1; r.Usage.Known && rest > 0 {
		generating := r.Total - r.Overhead - r.FirstByte
		s.tpot.Observe(max(generating, time.Duration(0)).Seconds() / float64(rest))
	}
}

// hasPace is true for good streamed answers only: the first byte of a unary one is its last, and an error comes early.
func hasPace(r *proxy.Result) bool {
	return r.Stream && r.Broken == nil && r.Status < http.StatusBadRequest
}

// resolve finds the handles of k, and makes them at its first use.
func (m *Metrics) resolve(k seriesKey) *series {
	m.mu.RLock()
	s := m.series[k]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.live.backends[k.backend] {
		k.backend = gone
	}
	if !m.live.endpoints[k.endpoint] {
		k.endpoint, k.variant = "", ""
	}
	if s := m.series[k]; s != nil {
		return s
	}
	s = m.newSeries(k)
	m.series[k] = s
	return s
}

func (m *Metrics) newSeries(k seriesKey) *series {
	place := []string{k.endpoint, k.variant, k.backend}
	s := &series{
		requests:   m.requests.WithLabelValues(append(place, k.route, strconv.Itoa(k.code))...),
		attempts:   m.attempts.WithLabelValues(k.endpoint),
		prompt:     m.prompt.WithLabelValues(place...),
		cached:     m.cached.WithLabelValues(place...),
		completion: m.completion.WithLabelValues(place...),
		ttft:       m.ttft.WithLabelValues(place...),
		tpot:       m.tpot.WithLabelValues(place...),
		overhead:   m.overhead.WithLabelValues(k.endpoint),
	}
	if k.decision != "" {
		s.decisions = m.decisions.WithLabelValues(k.endpoint, k.variant, string(k.decision))
	}
	if k.class != "" {
		s.errs = m.errs.WithLabelValues(k.endpoint, k.class)
	}
	return s
}

// knownCode keeps the set of codes closed, whatever a backend answers: unregistered ones count as their class's first.
func knownCode(code int) int {
	if http.StatusText(code) != "" || code == statusClientGone {
		return code
	}
	return code / 100 * 100
}

// statusClientGone is what a request counts as whose client left before the answer.
const statusClientGone = 499

// errorClass is one of a closed set; empty for a request that went well.
func errorClass(r *api.Record) string {
	err := r.Err
	if err == nil {
		err = r.Broken
	}
	upstream, isUpstream := errors.AsType[*proxy.UpstreamError](err)
	switch {
	case errors.Is(err, proxy.ErrClientGone):
		return "client_gone"
	case errors.Is(err, routing.ErrSaturated):
		return "saturated"
	case errors.Is(err, routing.ErrNoBackend):
		return "no_backend"
	case errors.Is(err, proxy.ErrBody):
		return "request_body"
	case isUpstream:
		return "backend_" + string(upstream.Kind)
	case r.Broken != nil:
		return "broken_stream"
	case r.Status >= http.StatusInternalServerError:
		return "status_5xx"
	case r.Status >= http.StatusBadRequest:
		return "status_4xx"
	}
	return ""
}
