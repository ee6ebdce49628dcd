package telemetry

import (
	"errors"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warmring/warmring/routing"
)

// gone stands for a backend that has left the fleet, so that a request which outlives its backend does not bring the
// backend's series back.
const gone = "removed"

// Metrics are the Prometheus metrics of one node, in a registry of their own. It is the api's Observer.
type Metrics struct {
	registry *prometheus.Registry

	requests, errs, decisions, attempts, bytes *prometheus.CounterVec
	prompt, cached, completion                 *prometheus.CounterVec
	ttft, tpot, overhead                       *prometheus.HistogramVec
	bytesIn, bytesOut                          prometheus.Counter

	mu     sync.RWMutex // guards live and series
	live   fleetNames
	series map[seriesKey]*series
}

// fleetNames are the labels that an epoch allows.
type fleetNames struct {
	epoch               [2]uint64 // generation, number
	backends, endpoints map[string]bool
}

func newMetrics(version string) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry(), series: map[seriesKey]*series{}}
	place := []string{"endpoint", "variant", "backend"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warmring_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "warmring_" + name, Help: help, Buckets: buckets}, labels)
	}
	m.requests = counter("requests_total", "Requests answered, by the status the client got.", append(place, "route", "code")...)
	m.errs = counter("request_errors_total", "Requests that failed, by what failed.", "endpoint", "class")
	m.decisions = counter("decisions_total", "Choices of a backend, by the reason of the choice.", "endpoint", "variant", "decision")
	m.attempts = counter("upstream_attempts_total", "Requests sent to backends, retries included.", "endpoint")
	m.bytes = counter("bytes_total", "Body bytes: in is towards backends, out is towards clients.", "direction")
	m.prompt = counter("prompt_tokens_total", "Prompt tokens, as the backends report them.", place...)
	m.cached = counter("cached_tokens_total", "Prompt tokens found in a prefix cache, as the backends report them.", place...)
	m.completion = counter("completion_tokens_total", "Generated tokens, as the backends report them.", place...)
	m.ttft = histogram("time_to_first_token_seconds", "From sending a streamed request to the first byte of its answer.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80}, place...)
	m.tpot = histogram("time_per_output_token_seconds", "Mean time between two tokens of a streamed answer, after the first.",
		[]float64{.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, 1, 2.5}, place...)
	m.overhead = histogram("overhead_seconds", "Time that a request spent in this router, not in a backend.",
		[]float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, .1, 1}, "endpoint")
	m.bytesIn, m.bytesOut = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "warmring_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	err := m.register(m.requests, m.errs, m.decisions, m.attempts, m.bytes, m.prompt, m.cached, m.completion, m.ttft, m.tpot,
		m.overhead, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, err
}

func (m *Metrics) register(cs ...prometheus.Collector) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, m.registry.Register(c))
	}
	return errors.Join(errs...)
}

// Handler serves the metrics in Prometheus' text formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// SetFleet forgets the series of backends and endpoints that e does not have. An epoch older than the last is ignored.
func (m *Metrics) SetFleet(e *routing.Epoch) {
	next := fleetNames{epoch: [2]uint64{e.Generation(), e.Number()}, backends: map[string]bool{"": true}, endpoints: map[string]bool{"": true}}
	for _, b := range e.Backends() {
		next.backends[b.ID] = true
	}
	for _, ep := range e.Endpoints() {
		next.endpoints[ep.Name] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Compare(next.epoch[:], m.live.epoch[:]) < 0 {
		return
	}
	for id := range m.live.backends {
		if !next.backends[id] {
			m.drop("backend", id)
		}
	}
	for name := range m.live.endpoints {
		if !next.endpoints[name] {
			m.drop("endpoint", name)
		}
	}
	maps.DeleteFunc(m.series, func(k seriesKey, _ *series) bool {
		return !next.endpoints[k.endpoint] || !next.backends[k.backend] && k.backend != gone
	})
	m.live = next
}

// drop deletes the series with this label, from the vectors that have it.
func (m *Metrics) drop(label, value string) {
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.requests, m.errs, m.decisions, m.attempts, m.prompt, m.cached, m.completion, m.ttft, m.tpot, m.overhead} {
		v.DeletePartialMatch(prometheus.Labels{label: value})
	}
}
