package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/node/telemetry"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/hot"
)

const (
	// tableEvery is the period of the hot table, tableFirst while this router is younger than tableYoung.
	tableEvery, tableFirst, tableYoung = 5 * time.Second, time.Second, 10 * time.Second
	// askLimit bounds how long the leader waits for another router's sketch.
	askLimit = time.Second
	// countsMost bounds what one router tells: a chunk that is hot has a share of at least 1/(8 N), so with N backends at
	// most 8 N of the deepest are, and each has a way of some chunks to it.
	countsMost = 1 << 16
)

// byHotTable is who proposes hot tables, for people.
const byHotTable = "hot table"

// sketches is what this router knows of hot tables beside the epoch.
type sketches struct {
	mu   sync.Mutex // guards what follows
	cut  int        // runs that had no room in the table that this router made last
	at   time.Time  // since when runs is the table in use; zero: there is none
	runs []hot.Run
}

// heat keeps the sketch decaying and has a new table agreed on where it differs.
func (r *replica) heat(ctx context.Context) error {
	began := time.Now()
	for ctx.Err() == nil {
		period := tableEvery
		if time.Since(began) < tableYoung {
			period = tableFirst
		}
		pause(ctx, period)
		if r.agreement.Status().Role == consensus.Leader && r.epochs.has() {
			r.tabulate(ctx)
		}
		r.picker.Sketch().Decay(hot.Factor(period))
	}
	return nil
}

// counted is what this router tells the leader.
func (r *replica) counted(floor float64, most int) hot.Report {
	return r.picker.Sketch().Report(floor, min(most, countsMost))
}

// tabulate makes a table of what all routers counted and proposes it where it differs.
func (r *replica) tabulate(ctx context.Context) {
	epoch := r.epochs.newest()
	active, capacity := 0, 0
	for _, s := range r.picker.Learnt().Servers {
		if s.Backend.State != routing.Active {
			continue
		}
		active++
		if s.Capacity > 0 && (capacity == 0 || s.Capacity < capacity) {
			capacity = s.Capacity
		}
	}
	if active == 0 || !epoch.Adaptive() {
		return
	}
	var before []hot.Run
	table := epoch.Hot()
	if table != nil {
		before = table.Runs
	}
	made := hot.Make(before, r.reported(ctx), hot.Config{Servers: active, Capacity: float64(capacity)})
	r.heated(made)
	if table != nil && slices.Equal(made.Runs, before) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	_, err := r.agreement.Propose(limited, consensus.Proposal{Change: routing.Change{Hot: &routing.HotTable{Runs: made.Runs}}, By: byHotTable})
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "a hot table was not agreed on", slog.Any("error", err))
	}
}

// reported asks all routers at once. Who does not answer in time is left out: its prefixes are colder for a period.
func (r *replica) reported(ctx context.Context) []hot.Report {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	members := *r.members.Load()
	floor := hot.Floor(len(members))
	reports := make([]hot.Report, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		if m.Name == r.name {
			reports[i] = r.counted(floor, countsMost)
			continue
		}
		asked.Go(func() {
			report, err := r.client.Hot(ctx, m.Addr, floor, countsMost)
			if err != nil {
				r.log.DebugContext(ctx, "a router did not tell its sketch", slog.String("peer", m.Name), slog.Any("error", err))
				return
			}
			reports[i] = report
		})
	}
	asked.Wait()
	return reports
}

// heated notes how many runs had no room.
func (r *replica) heated(made hot.Made) {
	r.sketches.mu.Lock()
	defer r.sketches.mu.Unlock()
	r.sketches.cut = made.Cut
}

// learnt is what telemetry shows of the adaptive tree.
func (r *replica) learnt() telemetry.RoutingStats {
	learnt, sketch := r.picker.Learnt(), r.picker.Sketch().Stats()
	out := telemetry.RoutingStats{
		SketchCounters: sketch.Counters, SketchCapacity: sketch.Capacity, SketchEvictions: sketch.Evictions,
		Pins: learnt.Pins, PinEvictions: learnt.PinEvictions, BytesPerToken: learnt.BytesPerToken,
		Servers: make(map[string]telemetry.ServerLearnt, len(learnt.Servers)),
	}
	for _, s := range learnt.Servers {
		out.Servers[s.Backend.ID] = telemetry.ServerLearnt{Endpoint: s.Backend.Endpoint, Variant: s.Backend.Variant, Pace: s.Pace, Capacity: s.Capacity}
	}
	out.CapacityAnswers, out.CapacityFailures = r.prober.Scrapes()
	r.sketches.mu.Lock()
	defer r.sketches.mu.Unlock()
	out.HotCut = r.sketches.cut
	if table := r.picker.Epoch().Hot(); table != nil {
		out.HotRuns = len(table.Runs)
		for _, run := range table.Runs {
			out.HotChunks += run.Length
		}
		age := time.Since(r.sketches.at)
		out.HotAge = &age
	}
	return out
}

// tabled notes since when a table is in use.
func (r *replica) tabled(e *routing.Epoch) {
	table := e.Hot()
	r.sketches.mu.Lock()
	defer r.sketches.mu.Unlock()
	if table != nil && (r.sketches.at.IsZero() || !slices.Equal(table.Runs, r.sketches.runs)) {
		r.sketches.at, r.sketches.runs = time.Now(), table.Runs
	}
}

// collect publishes what has changed here, and tells the picker how good its view of the others is.
func (r *replica) collect(now time.Time) {
	r.view.collect(now)
	members, ages := *r.members.Load(), r.mesh.Ages(now)
	synced := true
	for _, m := range members {
		_, heard := ages[m.Name]
		synced = synced && (heard || m.Name == r.name)
	}
	others := max(0, len(members)-1)
	r.picker.SetReplicas(others, synced, peer.Gap(others)+viewDelay)
}

// viewDelay is taken for the way of a frame from one router to another, in addition to the gap.
const viewDelay = 10 * time.Millisecond
