package peer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/sim/simnet"
)

func TestCalls(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		ctx, a, b := c.Context(), c.routers[0], c.routers[1]
		hello, err := a.client.Hello(ctx, b.address)
		if err != nil {
			c.Fatal(err)
		}
		if diff := cmp.Diff(node{b}.Hello(), hello); diff != "" {
			c.Error(diff)
		}
		if err := a.client.Promise(ctx, b.address, Ballot{Candidate: "s-a", Cluster: "c1", Generation: 2, Expect: 3, Voters: []string{"x"}}); err != nil {
			c.Error(err)
		}
		if err := a.client.Promise(ctx, b.address, Ballot{Candidate: "s-bad"}); err == nil || err.Error() != "promised to s-other already" {
			c.Errorf("a promise that is refused: %v", err)
		}
		for i := range 5 {
			c.commit(2, i)
		}
		image, err := a.client.Image(ctx, b.address)
		if err != nil {
			c.Fatal(err)
		}
		if e, err := image.Epoch(); err != nil || VersionOf(e) != b.version() {
			c.Errorf("%v, %v: want %s", e, err, b.version())
		}
		if err := a.client.Renew(ctx, b.address, Lease{Backend: routing.Backend{ID: "gpu-1"}, TTL: 1500 * time.Millisecond}); err != nil {
			c.Error(err)
		}
	})
}

func TestPropose(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, b := c.routers[0], c.routers[1]
		sent := Proposal{ID: "req-1", BaseGeneration: 3, BaseNumber: 14, Change: change(3), Force: true, By: "operator"}
		sent.Change.Hot = &routing.HotTable{}
		var got Proposal
		b.propose = func(_ context.Context, p Proposal) (Version, error) {
			got = p
			return Version{3, 15, 99}, nil
		}
		v, err := a.client.Propose(c.Context(), b.address, sent)
		if err != nil || v != (Version{3, 15, 99}) {
			c.Errorf("%v, %v", v, err)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			c.Error(diff)
		}
	})
}

// Each fact arrives as the same fact with the same words, however it was wrapped.
func TestErrorsRoundTrip(t *testing.T) {
	fields := []error{
		&routing.ChangeError{Path: "backends[gpu-1].url", Msg: "no port"},
		&routing.ChangeError{Path: "backends[gpu-1].weight", Msg: "over 0, please"},
	}
	tests := map[string]error{
		"no quorum":     fmt.Errorf("waiting for r02: %w", ErrNoQuorum),
		"conflict":      fmt.Errorf("%w: made for 1.2, now 1.4", ErrConflict),
		"shrink":        fmt.Errorf("%w: 8 of 10", ErrShrink),
		"unknown":       fmt.Errorf("lost leadership: %w", ErrUnknown),
		"foreign":       fmt.Errorf("%w: b", ErrForeign),
		"leader":        &NotLeaderError{Leader: "s-7"},
		"no leader":     fmt.Errorf("asked: %w", &NotLeaderError{}),
		"fields":        errors.Join(fields...),
		"field wrapped": fmt.Errorf("invalid: %w", errors.Join(fields[0])),
		"other":         errors.New("the log is closed"),
		"long":          fmt.Errorf("%s: %w", strings.Repeat("x", 3000), ErrShrink),
	}
	inBubble(t, 2, func(c *cluster) {
		a, b := c.routers[0], c.routers[1]
		for name, want := range tests {
			b.propose = func(context.Context, Proposal) (Version, error) { return Version{}, want }
			_, err := a.client.Propose(c.Context(), b.address, Proposal{})
			if err == nil || err.Error() != want.Error() {
				c.Errorf("%s: %q, want %q", name, err, want)
				continue
			}
			for _, fact := range []error{ErrNoQuorum, ErrConflict, ErrShrink, ErrUnknown, ErrForeign, ErrUnreachable} {
				if errors.Is(err, fact) != errors.Is(want, fact) {
					c.Errorf("%s: is %v: %t", name, fact, errors.Is(err, fact))
				}
			}
			gotLeader, is := errors.AsType[*NotLeaderError](err)
			wantLeader, was := errors.AsType[*NotLeaderError](want)
			if is != was || is && *gotLeader != *wantLeader {
				c.Errorf("%s: %v", name, gotLeader)
			}
			if diff := cmp.Diff(changeErrors(want), changeErrors(err)); diff != "" {
				c.Errorf("%s: %s", name, diff)
			}
		}
	})
}

// changeErrors finds them as anybody would: down the tree.
func changeErrors(err error) (out []routing.ChangeError) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *routing.ChangeError:
		return []routing.ChangeError{*e}
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			out = append(out, changeErrors(e)...)
		}
	case interface{ Unwrap() error }:
		return changeErrors(e.Unwrap())
	}
	return out
}

// What became of a change is known unless it was sent and not answered.
func TestProposalThatIsLost(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		ctx, a, b := c.Context(), c.routers[0], c.routers[1]
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		b.propose = func(context.Context, Proposal) (Version, error) {
			entered <- struct{}{}
			<-leave
			return Version{}, nil
		}
		try := func(address string) error {
			_, err := a.client.Propose(ctx, address, Proposal{})
			return err
		}
		if err := try("r00:1"); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnknown) {
			c.Errorf("nobody listens: %v", err)
		}
		began := time.Now()
		cut := c.net.Split(simnet.Group{a.host}, simnet.Group{b.host})
		if err := try("r01:7001"); !errors.Is(err, ErrUnreachable) || time.Since(began) > proposeTimeout {
			c.Errorf("no connection in time: %v after %v", err, time.Since(began))
		}
		cut.Heal()
		if err := try("r01:7000" + strings.Repeat("0", 10)); !errors.Is(err, ErrUnreachable) {
			c.Errorf("no such address: %v", err)
		}
		large := Proposal{By: strings.Repeat("x", askSize)}
		if _, err := a.client.Propose(ctx, b.address, large); err == nil || errors.Is(err, ErrUnknown) {
			c.Errorf("too large: %v", err)
		}
		c.complete(5 * time.Second) // connected again
		result := make(chan error, 1)
		go func() { result <- try(b.address) }()
		select {
		case <-entered:
		case err := <-result:
			c.Fatalf("it did not get there: %v", err)
		}
		go b.kill() // waits for the call that hangs
		if err := <-result; !errors.Is(err, ErrUnknown) {
			c.Errorf("killed while it worked: %v", err)
		}
		close(leave)
	})
}

func TestProposalWithoutAnswer(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		a, b := c.routers[0], c.routers[1]
		c.complete(time.Second)
		began := time.Now()
		b.propose = func(ctx context.Context, _ Proposal) (Version, error) {
			<-ctx.Done()
			return Version{}, ctx.Err()
		}
		_, err := a.client.Propose(c.Context(), b.address, Proposal{})
		if took := time.Since(began); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) || took > proposeTimeout+time.Second {
			c.Errorf("%v after %v", err, took)
		}
	})
}

func TestForwardedOnce(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		r := c.routers[0]
		client, release, err := r.client.acquire(r.address)
		if err != nil {
			c.Fatal(err)
		}
		defer release()
		_, err = client.Propose(r.identity().introduce(c.Context()), &peerpb.ProposeRequest{Change: []byte("{}"), Hop: 2})
		if err == nil || !strings.Contains(err.Error(), "has passed 2 routers") {
			c.Errorf("%v", err)
		}
	})
}

func TestForeignCallsAreRefused(t *testing.T) {
	tests := []struct {
		label, id string
		want      string
	}{
		{"other", "c1", `router "r00" is of cluster "other", router "r01" is of cluster "warmring"`},
		{"warmring", "c2", `router "r00" is of cluster "warmring" with id c2, router "r01" is of the one with id c1`},
		{"warmring", "", ""},
	}
	for _, tt := range tests {
		inBubble(t, 2, func(c *cluster) {
			a, b := c.routers[0], c.routers[1]
			a.mu.Lock()
			a.id = tt.id
			a.mu.Unlock()
			a.client.cfg.Identity.Label = tt.label
			_, err := a.client.Hello(c.Context(), b.address)
			if tt.want == "" {
				if err != nil {
					c.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), tt.want) {
				c.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// One connection for each member, none for who is no longer one.
func TestConnections(t *testing.T) {
	inBubble(t, 4, func(c *cluster) {
		ctx, a := c.Context(), c.routers[0]
		open := func() int {
			a.client.mu.Lock()
			defer a.client.mu.Unlock()
			return len(a.client.conns)
		}
		for range 3 {
			for _, r := range c.routers[1:] {
				if _, err := a.client.Hello(ctx, r.address); err != nil {
					c.Fatal(err)
				}
			}
		}
		if n := open(); n != 3 {
			c.Errorf("%d connections to 3 members", n)
		}
		a.know(a, c.routers[1])
		c.within(100*time.Millisecond, "closed", func() bool { return open() == 1 })
		if _, err := a.client.Hello(ctx, c.routers[2].address); err != nil || open() != 1 {
			c.Errorf("%v, %d connections after a call to a stranger", err, open())
		}
	})
}

// A call's span on the other side belongs to the caller's trace; streams have none.
func TestTraceGoesOn(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		spans := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		a, b := c.add("r00"), c.add("r01")
		a.tracer, b.tracer = provider, provider
		a.start()
		b.start()
		c.know(a, b)
		c.voters(1)
		c.complete(time.Second)
		b.propose = func(context.Context, Proposal) (Version, error) { return Version{}, nil }
		ctx, span := provider.Tracer("test").Start(c.Context(), "request")
		if _, err := a.client.Propose(ctx, b.address, Proposal{}); err != nil {
			c.Fatal(err)
		}
		span.End()
		time.Sleep(time.Second)
		var kinds []string
		for _, s := range spans.GetSpans() {
			kinds = append(kinds, s.SpanKind.String())
			if s.SpanContext.TraceID() != span.SpanContext().TraceID() {
				c.Errorf("%s is in another trace", s.Name)
			}
		}
		if !reflect.DeepEqual(kinds, []string{"server", "client", "internal"}) {
			c.Errorf("spans %v", kinds)
		}
	})
}
