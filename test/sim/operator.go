package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/warmring/warmring/api/admin"
)

// Operator changes the fleet through routers' admin listeners, one change after the other, and knows which were
// acknowledged. Each change is another weight of the model server m00.
type Operator struct {
	w       *World
	c       *Cluster
	changes int
	acked   []ack     // oldest first
	open    []float64 // weights of changes whose outcome is not known
}

// ack is the epoch that a router answered a change with.
type ack struct {
	generation, number uint64
	weight             float64
}

// Operator is somebody who changes a cluster's fleet. Its methods must not be called while Work goes on.
func (w *World) Operator(c *Cluster) *Operator { return &Operator{w: w, c: c} }

// Write changes the fleet through one router. An error may mean that it is changed nevertheless.
func (o *Operator) Write(r *Router) error {
	o.changes++
	weight := 1 + float64(o.changes)/1024 // exact in binary
	var done admin.Written
	if err := r.Call(http.MethodPut, "backends/m00/weight", fmt.Sprintf(`{"weight":%v}`, weight), &done); err != nil {
		o.open = append(o.open, weight)
		return err
	}
	a := ack{weight: weight}
	if _, err := fmt.Sscanf(done.Epoch, "%d.%d", &a.generation, &a.number); err != nil {
		return fmt.Errorf("epoch %q: %w", done.Epoch, err)
	}
	o.acked = append(o.acked, a)
	return nil
}

// Writes is for Soon: whether a change through this router succeeds.
func (o *Operator) Writes(r *Router) func() bool {
	return func() bool { return o.Write(r) == nil }
}

// Work writes through routers drawn from the seed, with a pause between two writes, until stop is called. stop returns
// how many changes were acknowledged and how many were tried.
func (o *Operator) Work(pause time.Duration) (stop func() (acked, tried int)) {
	quit, done := make(chan struct{}), make(chan struct{})
	acked, tried := len(o.acked), o.changes
	draw := rand.New(rand.NewPCG(o.w.Seed, 1))
	o.w.background.Go(func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-o.w.ctx.Done():
				return
			case <-time.After(pause):
			}
			_ = o.Write(o.c.Routers[draw.IntN(len(o.c.Routers))]) // it may be down or without a quorum
		}
	})
	return func() (int, int) {
		close(quit)
		<-done
		o.w.Logf("%d of %d changes were acknowledged", len(o.acked)-acked, o.changes-tried)
		return len(o.acked) - acked, o.changes - tried
	}
}

// Kept fails the test if a router that runs lacks an acknowledged change. The cluster must have settled. A new generation
// begins with the newest epoch that its founders had, so acknowledged ones of an older generation may be missing then; a
// test that expects no new generation says so itself.
func (o *Operator) Kept() {
	if len(o.acked) == 0 {
		o.w.Errorf("no change was acknowledged")
		return
	}
	last := o.acked[len(o.acked)-1]
	for _, r := range o.c.Routers {
		s, ok := r.State()
		if !ok || s.Generation > last.generation {
			continue
		}
		if s.Generation < last.generation || s.Number < last.number {
			o.w.Errorf("%s has epoch %d.%d, and %d.%d was acknowledged", r.Name, s.Generation, s.Number, last.generation, last.number)
		}
		for _, b := range r.Node().Epoch().Backends() {
			if b.ID == "m00" && !o.may(b.Weight) {
				o.w.Errorf("%s has weight %v, and %v was acknowledged last", r.Name, b.Weight, last.weight)
			}
		}
	}
}

// may says whether m00 may have this weight: that of the last acknowledged change, or of one whose outcome is not known,
// which may be carried out late.
func (o *Operator) may(weight float64) bool {
	return weight == o.acked[len(o.acked)-1].weight || slices.Contains(o.open, weight)
}
