package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// Bounds of a write.
const (
	writeLimit  = 15 * time.Second      // for all of it
	visible     = time.Second           // how long this router's own epoch is waited for
	visiblePoll = 10 * time.Millisecond // how often it is looked at
	attempts    = 5                     // when others write at the same time
	retryAfter  = "5"                   // seconds, without a quorum
)

// errReadOnly is the answer of a router that was given no Fleet.
var errReadOnly = errors.New("the fleet cannot be changed through this router")

// outcome is what came of a write.
type outcome struct {
	base  *routing.Epoch // that it was computed from
	epoch *routing.Epoch // that carries it
	steps []Step         // from one to the other
}

// order is a write that is planned anew for each epoch that it meets.
type order struct {
	plan  func(e *routing.Epoch) (routing.Change, error)
	body  []byte // of the request, as it came
	dry   bool   // compute the steps and leave it at that
	force bool
}

// commit plans the order's change on this router's epoch and writes it if the fleet
// is still the same then. When somebody else was faster it plans
// again, unless the client named the epoch that it wants to change.
func (a *Admin) commit(r *http.Request, o order) (outcome, error) {
	ctx, cancel := context.WithTimeout(r.Context(), writeLimit)
	defer cancel()
	id, named := requestID(r, o.body), ifMatch(r)
	if named != "" {
		a.await(ctx, func(e *routing.Epoch) bool { return e.ID() == named })
	}
	for n := range attempts {
		out, err := a.attempt(ctx, o, Write{Force: o.force, By: by(r), ID: fmt.Sprintf("%s.%d", id, n)}, named)
		if !errors.Is(err, ErrConflict) || named != "" {
			return out, err
		}
		a.await(ctx, func(e *routing.Epoch) bool { return e.ID() != out.base.ID() })
	}
	return outcome{}, ErrConflict
}

func (a *Admin) attempt(ctx context.Context, o order, w Write, named string) (outcome, error) {
	w.Base = a.deps.Picker.Epoch()
	out := outcome{base: w.Base, epoch: w.Base}
	if err := founded(w.Base); err != nil {
		return out, err
	}
	if named != "" && named != w.Base.ID() {
		return out, fmt.Errorf("If-Match is epoch %s, this router has %s: %w", named, w.Base.ID(), ErrConflict)
	}
	var err error
	if w.Change, err = o.plan(w.Base); err != nil {
		return out, err
	}
	next, err := w.Base.Apply(w.Change)
	if err != nil {
		return out, err
	}
	if err := distinct(next); err != nil {
		return out, err
	}
	if out.steps = Compare(w.Base, next); o.dry || len(out.steps) == 0 {
		return out, nil
	}
	out.epoch, err = a.propose(ctx, w)
	return out, err
}

// founded refuses a write to a router that has not got its first epoch.
func founded(e *routing.Epoch) error {
	if e.Generation() == 0 {
		return fmt.Errorf("this router is not part of a cluster yet: %w", ErrNoQuorum)
	}
	return nil
}

// propose writes, and waits a moment for this router to have the epoch too, so that who asks it next sees the change.
func (a *Admin) propose(ctx context.Context, w Write) (*routing.Epoch, error) {
	if a.deps.Fleet == nil {
		return nil, errReadOnly
	}
	carries, err := a.deps.Fleet.Write(ctx, w)
	if err != nil {
		return nil, err
	}
	a.await(ctx, func(e *routing.Epoch) bool {
		return e.Generation() > carries.Generation() || e.Generation() == carries.Generation() && e.Number() >= carries.Number()
	})
	return carries, nil
}

// await returns when this router's epoch is as wanted, or after a moment.
func (a *Admin) await(ctx context.Context, wanted func(*routing.Epoch) bool) {
	ctx, cancel := context.WithTimeout(ctx, visible)
	defer cancel()
	tick := time.NewTicker(visiblePoll)
	defer tick.Stop()
	for !wanted(a.deps.Picker.Epoch()) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sharedAddress says that another backend is at b's address.
func sharedAddress(b *routing.Backend, other string) error {
	return &routing.ChangeError{Path: "backends[" + b.ID + "].url", Msg: fmt.Sprintf("%q is the address of backend %q too", b.URL, other)}
}

// distinct refuses two backends at one address: each would get the other's load.
func distinct(e *routing.Epoch) error {
	var errs []error
	owner := map[string]string{}
	for _, b := range e.Backends() {
		if b.State == routing.Draining {
			continue // may have been renamed
		}
		if first, taken := owner[b.URL]; taken {
			errs = append(errs, sharedAddress(&b, first))
		}
		owner[b.URL] = b.ID
	}
	return errors.Join(errs...)
}

// requestID is a new one, or made of the client's own, so that it can safely repeat a request. What is asked for counts
// too: many programs send one id with all that they do for one cause, and a second write must not pass for the first.
func requestID(r *http.Request, body []byte) string {
	const most = 100
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > most {
		return rand.Text()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q", r.Method, r.URL.RequestURI(), body))
	return id + "." + hex.EncodeToString(sum[:8])
}

// ifMatch is the epoch that the client wants to change; empty: any.
func ifMatch(r *http.Request) string {
	return strings.Trim(r.Header.Get("If-Match"), ` "*`)
}

func by(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "admin"
	}
	return "admin from " + host
}

// wrote answers a write with the epoch that carries it.
func (a *Admin) wrote(w http.ResponseWriter, e *routing.Epoch) {
	setETag(w, e)
	a.write(w, http.StatusOK, Written{Epoch: e.ID(), Digest: digest(e)})
}

// setETag names the epoch for If-Match.
func setETag(w http.ResponseWriter, e *routing.Epoch) { w.Header().Set("ETag", `"`+e.ID()+`"`) }
