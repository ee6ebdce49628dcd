package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/node/discovery"
	"github.com/warmring/warmring/node/plan"
	"github.com/warmring/warmring/routing"
)

const (
	// proposeLimit is how long a write may take; an election takes one to three seconds of it.
	proposeLimit = 8 * time.Second
	// attemptLimit is how long one router may take to answer. A leader needs a gap between epochs and a round trip; after
	// this long it is likely cut off, and the same change goes to its successor.
	attemptLimit = 3 * time.Second
	// proposeAgain is how long to wait before asking again who leads.
	proposeAgain = 200 * time.Millisecond
)

// chair answers proposals and renewals that other routers send to this one because they believe that it leads. It never
// forwards them.
type chair struct{ *replica }

// Propose implements peer.Fleet.
func (c chair) Propose(ctx context.Context, p peer.Proposal) (peer.Version, error) {
	return c.spanned(ctx, "agree", func(ctx context.Context) (peer.Version, error) {
		was := c.epochs.newest()
		e, err := c.agreement.Propose(ctx, consensus.Proposal{
			ID: p.ID, Base: consensus.Base{Generation: p.BaseGeneration, Number: p.BaseNumber}, Change: p.Change, Force: p.Force, By: p.By,
		})
		if err != nil {
			return peer.Version{}, toPeer(err)
		}
		c.tell(ctx, was, e, p.By)
		return peer.VersionOf(e), nil
	})
}

// tell logs what people changed; what the leader itself changes it logs with its reasons.
func (r *replica) tell(ctx context.Context, was, is *routing.Epoch, by string) {
	for _, c := range admin.Summary(was, is) {
		r.log.InfoContext(ctx, "fleet changed", slog.String("kind", c.Kind), slog.Int("count", c.Count), slog.String("subject", strings.Join(c.IDs, ", ")),
			slog.String("why", "asked for by "+by), slog.String("epoch", is.ID()))
	}
}

// Renew implements peer.Fleet.
func (c chair) Renew(_ context.Context, l peer.Lease) error {
	status := c.agreement.Status()
	if status.Role != consensus.Leader {
		return &peer.NotLeaderError{Leader: status.Leader}
	}
	defer signal(c.orders)
	if l.TTL == 0 {
		c.leases.Release(l.Backend.ID)
		return nil
	}
	b := l.Backend
	f := plan.Found{
		ID: b.ID, URL: b.URL, Endpoint: b.Endpoint, Variant: b.Variant, Weight: b.Weight, MaxInflight: b.MaxInflight, Source: plan.Lease,
	}
	e := c.epochs.newest()
	known := slices.ContainsFunc(e.Backends(), func(have routing.Backend) bool {
		return have.ID == f.ID && have.URL == f.URL && have.Source == f.Source
	})
	if !known {
		if err := plan.Check(e, f); err != nil {
			return err
		}
	}
	return leaseError(f.ID, c.leases.Renew(f, l.TTL, time.Now()))
}

// leaseError names the field that the table refused.
func leaseError(id string, err error) error {
	field := ""
	switch {
	case errors.Is(err, discovery.ErrTTL):
		field = ".ttl"
	case errors.Is(err, discovery.ErrFull), errors.Is(err, discovery.ErrText):
	default:
		return err
	}
	return &routing.ChangeError{Path: "leases[" + id + "]" + field, Msg: err.Error()}
}

// toPeer translates what agreement answers into what the wire carries.
func toPeer(err error) error {
	if other, ok := errors.AsType[*consensus.NotLeaderError](err); ok {
		return &peer.NotLeaderError{Leader: other.Leader}
	}
	return translate(err, map[error]error{
		consensus.ErrNotLeader: &peer.NotLeaderError{}, consensus.ErrNoQuorum: peer.ErrNoQuorum, consensus.ErrConflict: peer.ErrConflict,
		consensus.ErrShrink: peer.ErrShrink, consensus.ErrUnknown: peer.ErrUnknown,
	})
}

// toAdmin translates what the wire carries into what an operator is told.
func toAdmin(err error) error {
	if _, ok := errors.AsType[*peer.NotLeaderError](err); ok {
		return fmt.Errorf("%w (%w)", admin.ErrNoQuorum, err)
	}
	return translate(err, map[error]error{
		peer.ErrNoQuorum: admin.ErrNoQuorum, peer.ErrUnreachable: admin.ErrNoQuorum, peer.ErrConflict: admin.ErrConflict,
		peer.ErrShrink: admin.ErrShrink, peer.ErrUnknown: admin.ErrUnknown,
	})
}

// translate puts the fact of one package in front of that of another.
func translate(err error, facts map[error]error) error {
	for from, to := range facts {
		if errors.Is(err, from) {
			return fmt.Errorf("%w: %w", to, err)
		}
	}
	return err
}

// Write implements admin.Fleet on any router.
func (r *replica) Write(ctx context.Context, w admin.Write) (*routing.Epoch, error) {
	p := peer.Proposal{ID: w.ID, Change: w.Change, Force: w.Force, By: w.By}
	if w.Base != nil {
		p.BaseGeneration, p.BaseNumber = w.Base.Generation(), w.Base.Number()
	}
	if p.ID == "" {
		id := make([]byte, 16)
		if _, err := io.ReadFull(r.world.Random, id); err != nil {
			return nil, fmt.Errorf("drawing a request id: %w", err)
		}
		p.ID = hex.EncodeToString(id)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	carries, err := r.spanned(ctx, "propose", func(ctx context.Context) (peer.Version, error) { return r.propose(ctx, p) })
	if err != nil {
		return nil, toAdmin(err)
	}
	return r.await(ctx, carries)
}

// propose hands p to the leader, and when that one is lost meanwhile to the next: the request's id makes it one change
// however often it is proposed.
func (r *replica) propose(ctx context.Context, p peer.Proposal) (v peer.Version, err error) {
	var doubt error // from an attempt that may have been, or may yet be, carried out
	err = r.withLeader(ctx, func(local bool, address string) (err error) {
		ctx, cancel := context.WithTimeout(ctx, attemptLimit)
		defer cancel()
		if local {
			v, err = chair{r}.Propose(ctx, p)
		} else {
			v, err = r.client.Propose(ctx, address, p)
		}
		if errors.Is(err, peer.ErrUnknown) {
			doubt = err
		}
		return err
	})
	if doubt != nil && leaderless(err) {
		return v, doubt
	}
	return v, err
}

// Renew implements admin.Fleet on any router.
func (r *replica) Renew(ctx context.Context, l admin.Lease) error {
	lease := peer.Lease{Backend: l.Backend, TTL: l.TTL}
	ctx, cancel := context.WithTimeout(ctx, proposeLimit)
	defer cancel()
	return toAdmin(r.withLeader(ctx, func(local bool, address string) error {
		if local {
			return chair{r}.Renew(ctx, lease)
		}
		return r.client.Renew(ctx, address, lease)
	}))
}

// withLeader calls do for the leader, and while there is none waits for one. A router that turns out not to lead names the
// one that does; it is asked next. do is called again as long as nobody says for certain what came of it, so it must do no
// harm to call it twice.
func (r *replica) withLeader(ctx context.Context, do func(local bool, address string) error) error {
	hint := ""
	for {
		status := r.agreement.Status()
		address := r.leaderAddress(hint)
		if hint == "" {
			address = r.leaderAddress(status.Leader)
		}
		if address == "" {
			address = r.anyVoter()
		}
		var err error = &peer.NotLeaderError{}
		switch {
		case status.Role == consensus.Leader:
			err = do(true, "")
		case address != "":
			err = do(false, address)
		}
		if !leaderless(err) {
			return err
		}
		hint = ""
		if other, ok := errors.AsType[*peer.NotLeaderError](err); ok {
			hint = other.Leader
		}
		if hint != "" && r.leaderAddress(hint) != address {
			continue
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(proposeAgain):
		}
	}
}

// leaderless reports that err does not come from a leader that knows what came of a call.
func leaderless(err error) bool {
	_, other := errors.AsType[*peer.NotLeaderError](err)
	return other || errors.Is(err, peer.ErrUnreachable) || errors.Is(err, peer.ErrNoQuorum) || errors.Is(err, peer.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}

// want makes the agreed fleet what people wrote down; backends that a source of their own lists stay. Where nothing is
// written down, as in the file of a router that only joins, nothing is wanted.
func (r *replica) want(ctx context.Context, f fleet.Fleet) error {
	if len(f.Endpoints)+len(f.Backends) == 0 {
		return nil
	}
	for {
		e := r.epochs.newest()
		change := f.Change(e, routing.Joining, true)
		if change.Empty() {
			return nil
		}
		_, err := r.Write(ctx, admin.Write{Change: change, Base: e, By: r.cfg.Router.Name})
		if !errors.Is(err, admin.ErrConflict) {
			return err
		}
	}
}

// leaderAddress is where the router with this server id is; empty for none or this one.
func (r *replica) leaderAddress(server string) string {
	for _, m := range *r.members.Load() {
		if server != "" && m.Meta.Server == server && m.Name != r.name {
			return m.Addr
		}
	}
	return ""
}

// anyVoter is the address of a voter, which knows who leads. It is one whose loads are heard: a write that is sent to a
// voter beyond a cut has an unknown outcome, where nobody to send it to is a clear answer.
func (r *replica) anyVoter() string {
	heard := r.mesh.Ages(time.Now())
	for _, m := range *r.members.Load() {
		if _, ok := heard[m.Name]; ok && m.Meta.Voter {
			return m.Addr
		}
	}
	return ""
}

// await returns once this router has the epoch too, so that who wrote it can read it here.
func (r *replica) await(ctx context.Context, v peer.Version) (*routing.Epoch, error) {
	for {
		changed := r.epochs.history.Changed()
		if e := r.epochs.newest(); peer.VersionOf(e).Compare(v) >= 0 {
			return e, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: epoch %d.%d carries the change and has not reached this router yet", admin.ErrUnknown, v.Generation, v.Number)
		}
	}
}
