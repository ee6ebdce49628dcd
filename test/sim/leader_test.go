package sim

import (
	"testing"
	"time"
)

// Whatever happens to the leader, no other router fails a request, and the fleet can soon be changed again.
func TestTheLeaderIsLostUnderLoad(t *testing.T) {
	for name, tt := range map[string]struct {
		lose  func(w *World, c *Cluster, leader *Router) (heal func())
		loses bool // the leader's own requests
	}{
		"killed": {func(_ *World, _ *Cluster, leader *Router) func() { leader.Kill(); return leader.Restart }, true},
		"paused": {func(_ *World, _ *Cluster, leader *Router) func() {
			leader.Host.Pause(30 * time.Second)
			return func() { time.Sleep(25 * time.Second) }
		}, true},
		"isolated": {func(w *World, c *Cluster, leader *Router) func() {
			return w.Net.Split(HostsOf(leader), HostsOf(c.Others(leader)...)).Heal
		}, false},
		"unheard": {func(w *World, c *Cluster, leader *Router) func() {
			return w.Net.OneWay(HostsOf(leader), HostsOf(c.Others(leader)...)).Heal
		}, false},
		"deaf": {func(w *World, c *Cluster, leader *Router) func() {
			return w.Net.OneWay(HostsOf(c.Others(leader)...), HostsOf(leader)).Heal
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, Options{Seeds: 2, Most: 10}, func(w *World) { // of five kinds each
				c := w.Cluster(5, w.Models(4))
				o := w.Operator(c)
				neverTwo(w, c)
				settles(w, "settled", formLimit, c)
				w.Soon("the first write", commitLimit, o.Writes(c.Routers[0]))
				load := w.Clients(c.Routers, Load{Rate: 8, Over: 30 * time.Second, Stream: 0.5})
				time.Sleep(5 * time.Second)
				leader, lost := c.Leader(), time.Now()
				heal := tt.lose(w, c, leader)
				w.Soon("a new leader", electLimit, c.NewLeader(leader))
				others := c.Others(leader)
				w.Soon("an epoch of the new leader's", commitLimit, o.Writes(others[w.Rand.IntN(len(others))]))
				w.waits.add("from the loss to the next epoch", time.Since(lost))
				heal()
				if load.Wait(); tt.loses {
					load.LostOnly(leader)
				} else {
					load.LostOnly()
				}
				settles(w, "settled again", healLimit, c)
				o.Kept()
			})
		})
	}
}
