package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
)

const grace = 10 * time.Second

// fleetUnderTest runs a fleet with its picker until the test ends. It must be called in a bubble.
func fleetUnderTest(t *testing.T) (*fleet, *routing.Picker) {
	t.Helper()
	picker := routing.NewPicker(routing.PickerConfig{})
	f := newFleet(1, 7, picker, func(*routing.Epoch) {}, grace, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f, picker
}

func wantFleet(t *testing.T, f *fleet, text string) {
	t.Helper()
	if err := f.want(load(t, text).fleet()); err != nil {
		t.Fatal(err)
	}
}

func pick(t *testing.T, p *routing.Picker) *routing.Lease {
	t.Helper()
	place, err := p.Epoch().Map(&routing.Request{Endpoint: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := p.Pick(&place, nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func states(p *routing.Picker) map[string]string {
	m := map[string]string{}
	for _, b := range p.Epoch().Backends() {
		m[b.ID] = b.State.String()
	}
	return m
}

func mustBe(t *testing.T, p *routing.Picker, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, states(p)); diff != "" {
		t.Errorf("backends differ (-want +got):\n%s", diff)
	}
}

const (
	justA = "endpoints: [{name: demo}]\nbackends: [{id: a, url: 'http://h:1'}]\n"
	justB = "endpoints: [{name: demo}]\nbackends: [{id: b, url: 'http://h:2'}]\n"
)

func TestARemovedBackendDrainsAndGoesWithItsLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		lease := pick(t, picker)
		wantFleet(t, f, justB)
		time.Sleep(grace / 2)
		mustBe(t, picker, map[string]string{"a": "draining", "b": "active"})
		if other := pick(t, picker); other.Backend.ID != "b" {
			t.Errorf("a draining backend was picked")
		}
		lease.Release()
		time.Sleep(2 * drainPoll)
		mustBe(t, picker, map[string]string{"b": "active"})
	})
}

func TestADrainingBackendGoesWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		lease := pick(t, picker)
		wantFleet(t, f, justB)
		wantFleet(t, f, justB) // a second reload does not give it more time
		time.Sleep(grace + 2*drainPoll)
		mustBe(t, picker, map[string]string{"b": "active"})
		lease.Release() // its request outlives it, and is still counted well
		for _, l := range picker.Snapshot(time.Now()) {
			if l.InFlight != 0 {
				t.Errorf("%s has %d in flight", l.Backend.ID, l.InFlight)
			}
		}
	})
}

func TestABackendThatReturnsWhileDrainingStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		lease := pick(t, picker)
		wantFleet(t, f, justB)
		time.Sleep(grace / 2)
		wantFleet(t, f, justA)
		lease.Release()
		time.Sleep(2 * grace)
		mustBe(t, picker, map[string]string{"a": "active"})
	})
}

func TestAnEndpointTakesItsBackendsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		lease := pick(t, picker)
		wantFleet(t, f, "endpoints: [{name: other}]\nbackends: [{id: b, url: 'http://h:2'}]\n")
		mustBe(t, picker, map[string]string{"b": "active"})
		lease.Release()
	})
}

func TestARefusedFleetChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		before := picker.Epoch()
		err := f.want(load(t, "endpoints: [{name: demo}, {name: demo}]\nbackends: [{id: b, url: 'ftp://h'}]\n").fleet())
		if err == nil {
			t.Fatal("a wrong fleet is accepted")
		}
		if picker.Epoch() != before {
			t.Error("the epoch changed")
		}
	})
}

func TestTheSameFleetIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		wantFleet(t, f, justA)
		if got := picker.Epoch().ID(); got != "1.1" {
			t.Errorf("epoch %s, want 1.1", got)
		}
	})
}

// Row 22 of the scenarios, as far as the agreed state goes.
func TestANewAddressIsANewIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, picker := fleetUnderTest(t)
		wantFleet(t, f, justA)
		old := picker.Epoch().Backends()[0]
		wantFleet(t, f, "endpoints: [{name: demo}]\nbackends: [{id: a, url: 'http://h:9'}]\n")
		got := picker.Epoch().Backends()[0]
		if got.Incarnation <= old.Incarnation {
			t.Errorf("incarnation %d after %d", got.Incarnation, old.Incarnation)
		}
	})
}
