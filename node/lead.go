package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/node/plan"
)

const (
	// leadEvery is how often who does not lead looks whether it does; a change of roles also wakes it.
	leadEvery = time.Second
	// leadGap keeps a burst of reports from becoming as many plans.
	leadGap = 20 * time.Millisecond
)

// steering is what this router needs while it leads the fleet.
type steering struct {
	planner *plan.Planner
	since   time.Time    // when it became the leader; zero while it is not. The lead loop's alone
	held    atomic.Int64 // wishes that a limit forbids now
	told    map[string]bool
}

// lead proposes what the fleet needs next, while this router leads.
func (r *replica) lead(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.orders:
		}
		timer.Reset(r.plan(ctx))
		pause(ctx, leadGap)
	}
}

// plan makes one decision and has it agreed on. It returns when to look again at the latest.
func (r *replica) plan(ctx context.Context) time.Duration {
	now := time.Now()
	if r.agreement.Status().Role != consensus.Leader || !r.epochs.has() {
		r.steer.since = time.Time{}
		r.steer.held.Store(0)
		return leadEvery
	}
	epoch := r.epochs.newest()
	if r.steer.since.IsZero() {
		r.steer.since = now
		r.leases.Restart(now, epoch.Backends())
	}
	found, broken, expiry := r.found(now)
	reports, complete := r.reports(now)
	decision := r.steer.planner.Next(plan.Input{
		Now: now, Epoch: epoch, Found: found, Broken: broken, Reports: reports, Complete: complete,
		Members: memberNames(*r.members.Load()), LeaderSince: r.steer.since,
	})
	r.steer.held.Store(int64(len(decision.Held)))
	r.tellHeld(decision.Held)
	if decision.Empty {
		if expiry.IsZero() {
			return decision.Again
		}
		return min(decision.Again, expiry.Sub(now)+leadGap)
	}
	limited, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	next, err := r.agreement.Propose(limited, consensus.Proposal{
		Base: consensus.Base{Generation: epoch.Generation(), Number: epoch.Number()}, Change: decision.Change, Force: true, By: "leader",
	})
	switch {
	case err == nil:
		for _, why := range decision.Reasons {
			r.log.InfoContext(ctx, "fleet changed", slog.String("kind", string(why.Kind)), slog.String("subject", why.Subject),
				slog.String("why", why.Text), slog.String("epoch", next.ID()))
		}
		return leadGap
	case !errors.Is(err, consensus.ErrConflict) && ctx.Err() == nil: // a conflict is somebody else's change: plan anew
		r.log.WarnContext(ctx, "a change of the fleet was not agreed on", slog.Any("error", err))
	}
	return r.cfg.Fleet.EpochGap
}

// tellHeld logs each wish that a limit forbids once, until it is gone.
func (r *replica) tellHeld(held []plan.Reason) {
	now := make(map[string]bool, len(held))
	for _, why := range held {
		key := string(why.Kind) + " " + why.Subject
		now[key] = true
		if !r.steer.told[key] {
			r.log.Warn("a change of the fleet is held back", slog.String("kind", string(why.Kind)), slog.String("subject", why.Subject), slog.String("why", why.Text))
		}
	}
	r.steer.told = now
}

// reports is what all routers say about the backends that are not at rest, and whether all that are alive have said it.
func (r *replica) reports(now time.Time) (map[plan.Key]plan.Report, bool) {
	said, complete := r.mesh.Reports(now)
	out := make(map[plan.Key]plan.Report, len(said))
	for key, report := range said {
		out[plan.Key(key)] = plan.Report(report)
	}
	return out, complete
}
