package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/routing"
)

// apply makes the fleet what the body says, in one epoch, and answers with the
// difference.
func (a *Admin) apply(w http.ResponseWriter, r *http.Request) {
	o, err := applyOrder(w, r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	out, err := a.commit(r, o)
	if err != nil {
		a.refuse(w, err)
		return
	}
	answer := Applied{Base: out.base.ID(), DryRun: o.dry, Difference: out.steps}
	if !o.dry {
		setETag(w, out.epoch)
		answer.Epoch, answer.Digest = out.epoch.ID(), digest(out.epoch)
	}
	a.write(w, http.StatusOK, answer)
}

func applyOrder(w http.ResponseWriter, r *http.Request) (order, error) {
	dry, errDry := flag(r, "dry_run")
	prune, errPrune := flag(r, "prune")
	force, errForce := flag(r, "force")
	body, errBody := read(w, r)
	if err := errors.Join(errDry, errPrune, errForce, errBody); err != nil {
		return order{}, err
	}
	var wanted fleet.Fleet
	if err := decode(body, &wanted); err != nil {
		return order{}, err
	}
	if len(wanted.Endpoints)+len(wanted.Backends) == 0 {
		return order{}, invalidf("", "the fleet is empty: it must name endpoints or backends")
	}
	if err := wanted.CheckURLs(); err != nil {
		return order{}, err
	}
	return order{body: body, dry: dry, force: force, plan: func(e *routing.Epoch) (routing.Change, error) {
		return wanted.Change(e, routing.Joining, prune), nil
	}}, nil
}

// putLease takes a backend's own word that it is there.
func (a *Admin) putLease(w http.ResponseWriter, r *http.Request) {
	l, err := a.lease(w, r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	if err := a.deps.Fleet.Renew(r.Context(), l); err != nil {
		a.refuse(w, err)
		return
	}
	e := a.deps.Picker.Epoch()
	answer := Leased{ID: l.Backend.ID, TTL: l.TTL.Seconds(), Epoch: e.ID()}
	if b, known := backendOf(e, l.Backend.ID); known {
		answer.State = b.State.String()
	}
	a.write(w, http.StatusOK, answer)
}

// lease judges the request on this router's epoch, so that a mistake is told to who
// made it.
func (a *Admin) lease(w http.ResponseWriter, r *http.Request) (Lease, error) {
	if a.deps.Fleet == nil {
		return Lease{}, errReadOnly
	}
	body, err := read(w, r)
	if err != nil {
		return Lease{}, err
	}
	wanted := LeaseRequest{Weight: 1}
	if err := decode(body, &wanted); err != nil {
		return Lease{}, err
	}
	if wanted.TTL < minTTL || wanted.TTL > maxTTL {
		return Lease{}, invalidf("ttl", "ttl: %s: must be %s to %s, such as 30s", wanted.TTL, minTTL, maxTTL)
	}
	e := a.deps.Picker.Epoch()
	if err := founded(e); err != nil {
		return Lease{}, err
	}
	b := fleet.Backend{
		ID: r.PathValue("id"), URL: wanted.URL, Endpoint: wanted.Endpoint, Variant: wanted.Variant,
		Weight: wanted.Weight, MaxInflight: wanted.MaxInflight,
	}.Routing(e.Endpoints(), routing.Joining)
	b.Source = sourceLease
	_, err = e.Apply(routing.Change{PutBackends: []routing.Backend{b}})
	return Lease{Backend: b, TTL: wanted.TTL.Round(time.Millisecond)}, errors.Join(err, vacant(e, &b))
}

// vacant refuses a lease for the id or the address of a backend that people or DNS list: they go first, so it would be
// without effect. That of another lease may be taken: it runs out, or the backend has moved.
func vacant(e *routing.Epoch, b *routing.Backend) error {
	for _, have := range e.Backends() {
		switch {
		case have.State == routing.Draining || have.Source == sourceLease || (have.ID == b.ID) == (have.URL == b.URL):
		case have.ID == b.ID:
			return &routing.ChangeError{Path: "backends[" + b.ID + "].url", Msg: fmt.Sprintf("%q: it is at %q, and listed otherwise", b.URL, have.URL)}
		default:
			return sharedAddress(b, have.ID)
		}
	}
	return nil
}

// endLease takes a backend's own word that it leaves. Its lease ends first, which the epoch may not have yet: it is drained
// as if its time had run out, so that its next lease brings it back.
func (a *Admin) endLease(w http.ResponseWriter, r *http.Request) {
	if a.deps.Fleet == nil {
		a.refuse(w, errReadOnly)
		return
	}
	if err := a.deps.Fleet.Renew(r.Context(), Lease{Backend: routing.Backend{ID: r.PathValue("id")}}); err != nil {
		a.refuse(w, err)
		return
	}
	a.change(drainLeased)(w, r)
}

func drainLeased(r *http.Request, _ []byte) (order, error) {
	return order{plan: func(e *routing.Epoch) (routing.Change, error) {
		b, known := backendOf(e, r.PathValue("id"))
		if !known || b.Source != sourceLease && b.State != routing.Draining {
			return routing.Change{}, &notFoundError{"id", "there is no lease of " + strconv.Quote(r.PathValue("id")) + " in epoch " + e.ID()}
		}
		b.State = routing.Draining
		return routing.Change{PutBackends: []routing.Backend{b}}, nil
	}}, nil
}
