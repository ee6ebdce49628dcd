package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RoutingStats is what a router knows of the adaptive tree at one moment: the hot table, the sketch behind it, the placement
// directory, and what it learnt.
type RoutingStats struct {
	HotRuns   int            // of the table in use
	HotChunks int            // that these runs stand for
	HotCut    int            // runs that the table's bound left out when it was last made; 0 on who did not make it
	HotAge    *time.Duration // since this router has the table; nil: there is none yet

	SketchCounters, SketchCapacity int    // in use, and at most
	SketchEvictions                uint64 // counters that were given to another chunk, ever

	Pins         int    // in the placement directory
	PinEvictions uint64 // pins that left it for want of room, ever

	BytesPerToken map[string]float64      // learnt, by endpoint
	Servers       map[string]ServerLearnt // by the id of the backend; those of the epoch

	// CapacityAnswers and CapacityFailures count the questions to backends for the capacity of their KV cache, ever.
	CapacityAnswers, CapacityFailures uint64
}

// ServerLearnt is what a router learnt of one backend.
type ServerLearnt struct {
	Endpoint, Variant string
	Pace              float64 // its times to first token over those of all, 1 is as they are; 0: nothing is learnt yet
	Capacity          int     // of its KV cache in tokens; 0: unknown
}

// tree reads its gauges from the router when they are scraped.
type tree struct {
	read func() RoutingStats
	live func(endpoint, backend string) bool

	runs, chunks, cut, age, counters, room, evictions, pins, pinEvictions, bytes, pace, capacity, scrapes *prometheus.Desc
}

// WatchRouting serves what read returns among the metrics, without what is not of the fleet that SetFleet was given last.
func (m *Metrics) WatchRouting(read func() RoutingStats) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("warmring_"+name, help, labels, nil)
	}
	return m.register(&tree{
		read: read, live: m.has,
		runs:         desc("hot_table_runs", "Runs of chunks that several backends serve."),
		chunks:       desc("hot_table_chunks", "Chunks that these runs stand for."),
		cut:          desc("hot_table_runs_cut", "Runs that did not fit into the hot table when this router last made it."),
		age:          desc("hot_table_age_seconds", "Time since this router has the hot table in use."),
		counters:     desc("sketch_counters", "Counters of chunks in use."),
		room:         desc("sketch_capacity", "Counters of chunks at most."),
		evictions:    desc("sketch_evictions_total", "Counters that were given to another chunk."),
		pins:         desc("directory_pins", "Prompts of which this router knows where they were sent."),
		pinEvictions: desc("directory_evictions_total", "Such prompts that were forgotten for want of room."),
		bytes:        desc("bytes_per_token", "Bytes of a prompt that make a token, as learnt from the backends' usage.", "endpoint"),
		pace:         desc("pace", "A backend's times to first token over those of all, after the work that each had.", "endpoint", "variant", "backend"),
		capacity:     desc("kv_capacity_tokens", "Tokens that a backend's KV cache holds, as its metrics tell.", "endpoint", "variant", "backend"),
		scrapes:      desc("kv_capacity_scrapes_total", "Questions to backends for that capacity.", "result"),
	})
}

// has reports whether both are of the fleet.
func (m *Metrics) has(endpoint, backend string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.live.endpoints[endpoint] && m.live.backends[backend]
}

// Describe implements prometheus.Collector.
func (t *tree) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		t.runs, t.chunks, t.cut, t.age, t.counters, t.room, t.evictions, t.pins, t.pinEvictions, t.bytes, t.pace, t.capacity, t.scrapes,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What is not known has no series.
func (t *tree) Collect(ch chan<- prometheus.Metric) {
	s := t.read()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(t.runs, prometheus.GaugeValue, float64(s.HotRuns))
	send(t.chunks, prometheus.GaugeValue, float64(s.HotChunks))
	send(t.cut, prometheus.GaugeValue, float64(s.HotCut))
	if s.HotAge != nil {
		send(t.age, prometheus.GaugeValue, s.HotAge.Seconds())
	}
	send(t.counters, prometheus.GaugeValue, float64(s.SketchCounters))
	send(t.room, prometheus.GaugeValue, float64(s.SketchCapacity))
	send(t.evictions, prometheus.CounterValue, float64(s.SketchEvictions))
	send(t.pins, prometheus.GaugeValue, float64(s.Pins))
	send(t.pinEvictions, prometheus.CounterValue, float64(s.PinEvictions))
	send(t.scrapes, prometheus.CounterValue, float64(s.CapacityAnswers), "answered")
	send(t.scrapes, prometheus.CounterValue, float64(s.CapacityFailures), "failed")
	for endpoint, bytes := range s.BytesPerToken {
		if t.live(endpoint, "") {
			send(t.bytes, prometheus.GaugeValue, bytes, endpoint)
		}
	}
	for id, server := range s.Servers {
		if !t.live(server.Endpoint, id) {
			continue // it left while read ran
		}
		if server.Pace > 0 {
			send(t.pace, prometheus.GaugeValue, server.Pace, server.Endpoint, server.Variant, id)
		}
		if server.Capacity > 0 {
			send(t.capacity, prometheus.GaugeValue, float64(server.Capacity), server.Endpoint, server.Variant, id)
		}
	}
}
