package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmring/warmring/routing"
)

// Loads is the view that the picker has of the backends.
type Loads interface {
	Snapshot(now time.Time) []routing.Load
	Epoch() *routing.Epoch
}

// fleet reads gauges from their source when they are scraped, so that there is one counter for one fact.
type fleet struct {
	loads  Loads
	queued func() int
	now    func() time.Time

	inflight, prefill, ejected, generation, number, queue *prometheus.Desc
}

// Watch serves the picker's view and the length of the proxy's queue among the metrics.
func (m *Metrics) Watch(loads Loads, queued func() int, now func() time.Time) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("warmring_"+name, help, labels, nil)
	}
	return m.register(&fleet{
		loads: loads, queued: queued, now: now,
		inflight:   desc("inflight", "Requests that this router has on a backend.", "endpoint", "variant", "backend"),
		prefill:    desc("prefill_tokens", "Prefill work sent and not yet answered by a first token, in token equivalents.", "endpoint", "variant", "backend"),
		ejected:    desc("ejected", "1 while a backend is out because of failures.", "endpoint", "variant", "backend"),
		generation: desc("epoch_generation", "Generation of the epoch in use."),
		number:     desc("epoch_number", "Number of the epoch in use."),
		queue:      desc("queue_length", "Requests waiting for a slot on a backend."),
	})
}

// Describe implements prometheus.Collector.
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.inflight, f.prefill, f.ejected, f.generation, f.number, f.queue} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := f.now()
	for _, l := range f.loads.Snapshot(now) {
		if l.Gone {
			continue // its label may belong to a new incarnation
		}
		place := []string{l.Backend.Endpoint, l.Backend.Variant, l.Backend.ID}
		out := 0.0
		if !l.EjectedUntil.IsZero() {
			out = 1
		}
		gauge(f.inflight, float64(l.InFlight), place...)
		gauge(f.prefill, float64(l.Prefill), place...)
		gauge(f.ejected, out, place...)
	}
	e := f.loads.Epoch()
	gauge(f.generation, float64(e.Generation()))
	gauge(f.number, float64(e.Number()))
	gauge(f.queue, float64(f.queued()))
}
