package node

import (
	"context"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/routing"
)

// observers are told one after the other.
type observers []api.Observer

// Observe implements api.Observer.
func (o observers) Observe(ctx context.Context, r *api.Record) {
	for _, each := range o {
		each.Observe(ctx, r)
	}
}

// setFleet tells everybody who keeps something by backend about a new epoch.
func (n *Node) setFleet(e *routing.Epoch) {
	n.telemetry.Metrics.SetFleet(e)
	n.recent.SetFleet(e)
}

// traffic is the last minutes in the admin's terms.
func (n *Node) traffic(now time.Time) admin.Traffic {
	r := n.recent.Read(now)
	t := admin.Traffic{
		Now: admin.Figures(r.Now), Decisions: map[string]uint64{}, OverheadP50: r.OverheadP50,
		HistoryStep: r.HistoryStep, HistoryUntil: r.HistoryUntil, Backends: map[string]admin.Figures{},
	}
	for d, count := range r.Decisions {
		t.Decisions[string(d)] = count
	}
	for _, f := range r.History {
		t.History = append(t.History, admin.Figures(f))
	}
	for id, f := range r.Backends {
		t.Backends[id] = admin.Figures(f)
	}
	for _, c := range r.Changes {
		t.Changes = append(t.Changes, admin.Change(c))
	}
	return t
}
