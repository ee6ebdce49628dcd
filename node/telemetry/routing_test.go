package telemetry

import (
	"strings"
	"testing"
	"time"
)

func TestRoutingGauges(t *testing.T) {
	m := newTestMetrics(t)
	m.SetFleet(fleetOf(t, "gpu-0", "gpu-1"))
	stats := RoutingStats{
		HotRuns: 23, HotChunks: 400, HotCut: 2, SketchCounters: 4000, SketchCapacity: 4096, SketchEvictions: 17, Pins: 900, PinEvictions: 3,
		BytesPerToken: map[string]float64{"demo": 3.5, "unheard-of": 9},
		Servers: map[string]ServerLearnt{
			"gpu-0": {Endpoint: "demo", Variant: "main", Pace: 1.5, Capacity: 1_150_000},
			"gpu-1": {Endpoint: "demo", Variant: "main"},
			"gpu-9": {Endpoint: "demo", Variant: "main", Pace: 9, Capacity: 9},
		},
		CapacityAnswers: 6, CapacityFailures: 1,
	}
	if err := m.WatchRouting(func() RoutingStats { return stats }); err != nil {
		t.Fatal(err)
	}
	const place = `{backend="gpu-0",endpoint="demo",variant="main"}`
	text := scrape(t, m)
	mustContain(t, text,
		`warmring_hot_table_runs 23`, `warmring_hot_table_chunks 400`, `warmring_hot_table_runs_cut 2`,
		`warmring_sketch_counters 4000`, `warmring_sketch_capacity 4096`, `warmring_sketch_evictions_total 17`,
		`warmring_directory_pins 900`, `warmring_directory_evictions_total 3`, `warmring_bytes_per_token{endpoint="demo"} 3.5`,
		`warmring_pace`+place+` 1.5`, `warmring_kv_capacity_tokens`+place+` 1.15e+06`,
		`warmring_kv_capacity_scrapes_total{result="answered"} 6`, `warmring_kv_capacity_scrapes_total{result="failed"} 1`)
	for _, not := range []string{"warmring_hot_table_age_seconds ", "gpu-1", "gpu-9", "unheard-of"} {
		if strings.Contains(text, not) {
			t.Errorf("metrics have %q:\n%s", not, text)
		}
	}
	stats.HotAge = new(2500 * time.Millisecond)
	mustContain(t, scrape(t, m), `warmring_hot_table_age_seconds 2.5`)
}
