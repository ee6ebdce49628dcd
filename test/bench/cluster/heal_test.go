package main

import (
	"slices"
	"testing"
	"time"

	"github.com/warmring/warmring/test/sim"
)

// Five routers are cut into three and two, for a time that may be too short to be noticed or long enough for each side to
// give the other up. How long it takes from the heal until they are one cluster that takes a write goes to the table.
func TestHealing(t *testing.T) {
	sim.Run(t, sim.Options{Seeds: 2}, func(w *sim.World) {
		c := w.Cluster(5, w.Models(2))
		o := w.Operator(c)
		w.Soon("settled", time.Minute, c.Settled)
		w.Soon("a write", 10*time.Second, o.Writes(c.Routers[0]))
		routers := slices.Clone(c.Routers)
		w.Rand.Shuffle(len(routers), func(i, j int) { routers[i], routers[j] = routers[j], routers[i] })
		few, most := routers[:2], routers[2:]
		cut := w.Net.Split(sim.HostsOf(few...), sim.HostsOf(most...))
		time.Sleep(5*time.Second + time.Duration(w.Rand.Int64N(int64(55*time.Second))))
		w.Soon("a write of the majority", 10*time.Second, o.Writes(most[0]))
		cut.Heal()
		w.Soon(healWait, 2*time.Minute, func() bool {
			return c.Settled() && o.Write(few[0]) == nil
		})
		w.Soon("the write is everywhere", 10*time.Second, c.Settled)
		o.Kept()
	})
}
