package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
)

const dns = "dns:models"

// A server is discovered before it is ready: no traffic until it is, and then at once (scenario 24).
func TestFoundJoinsAndIsActiveWhenReady(t *testing.T) {
	l := newLab(t)
	l.in.Found = list(backend("a", 0, dns))
	l.pass(time.Hour)
	l.want("joined a")
	if b := l.get("a"); b.State != routing.Joining || b.Source != dns {
		t.Fatalf("%+v", b)
	}
	l.report("a", Report{Ready: Observers(l.in.Members, "a")[:1]})
	l.pass(time.Minute)
	l.want()
	l.report("a", Report{Ready: Observers(l.in.Members, "a")[:2]})
	if d := l.next(); len(d.Reasons) != 1 || d.Reasons[0].Text != "2 of 3 observers find it ready" {
		t.Errorf("%+v", d)
	}
	l.want("ready a")
}

func TestNamesThatAreLeftOut(t *testing.T) {
	l := newLab(t)
	f := list(backend("a", 0, dns), backend("b", 0, dns))
	f[0].Variant, f[1].Endpoint, f[1].Variant = "", "embed", ""
	l.in.Found = f
	l.pass(time.Minute)
	if a, b := l.get("a"), l.get("b"); a.Variant != "main" || b.Variant != "main" || b.Endpoint != "embed" {
		t.Errorf("%+v %+v", a, b)
	}
	l.want("joined a", "joined b")
}

// The fleet's rules refuse what a source lists: the rest goes on.
func TestInvalidIsHeld(t *testing.T) {
	l := newLab(t)
	l.in.Found = list(backend("a", 0, dns), backend("b", 0, dns), backend("c", 0, dns), backend("d", 0, dns), backend("e", 0, ""))
	l.in.Found[0].URL = "ftp://a"
	l.in.Found[1].Weight = -1
	l.in.Found[2].Endpoint = "none"
	d := l.next()
	l.want("joined d")
	for _, id := range []string{"a", "b", "c"} {
		wantHeld(t, d, HeldInvalid, id)
	}
	if d = l.next(); !d.Empty {
		t.Error("what is refused is proposed again")
	}
}

func TestCheck(t *testing.T) {
	l := newLab(t)
	f := list(backend("a", 0, dns))[0]
	if err := Check(l.in.Epoch, f); err != nil {
		t.Error(err)
	}
	f.Variant = "other"
	if err := Check(l.in.Epoch, f); err == nil || !strings.Contains(err.Error(), `backends[a].variant: endpoint "chat" has no variant "other"`) {
		t.Error(err)
	}
}

// Same name, new address (scenario 22): another incarnation, which must be found ready itself.
func TestMoved(t *testing.T) {
	l := newLab(t, fleet(1, dns)...)
	before := l.get("b00").Incarnation
	l.in.Found = list(l.get("b00"))
	l.in.Found[0].URL = "http://other:80"
	l.ready("b00")
	l.pass(time.Minute)
	l.want("moved b00")
	if b := l.get("b00"); b.Incarnation != before+1 || b.State != routing.Joining || b.URL != "http://other:80" {
		t.Fatalf("%+v", b)
	}
	l.ready("b00")
	l.next()
	l.want("ready b00")
}

// Two servers that came back with each other's addresses do not wait for each other.
func TestSwappedAddresses(t *testing.T) {
	l := newLab(t, fleet(2, dns)...)
	l.in.Found = list(l.get("b00"), l.get("b01"))
	l.in.Found[0].URL, l.in.Found[1].URL = l.in.Found[1].URL, l.in.Found[0].URL
	l.pass(time.Minute)
	if a, b := l.get("b00"), l.get("b01"); a.URL != "http://b01:80" || b.URL != "http://b00:80" {
		t.Errorf("%+v %+v", a, b)
	}
}

// A weight that people set stays; a source gives the numbers when a backend joins.
func TestNumbers(t *testing.T) {
	l := newLab(t, fleet(1, dns)...)
	l.in.Found = list(l.get("b00"))
	l.in.Found[0].Weight, l.in.Found[0].MaxInflight = 2, 9
	l.pass(time.Minute)
	l.want()
	l.in.Found[0].URL = "http://other:80"
	l.pass(time.Minute)
	if b := l.get("b00"); b.Weight != 2 || b.MaxInflight != 9 {
		t.Errorf("%+v", b)
	}
}

// A backend that its source drops is drained, not cut, and goes when nothing is in flight anywhere.
func TestUnlistedDrains(t *testing.T) {
	l := newLab(t, fleet(3, dns)...)
	l.in.Found = list(l.get("b00"), l.get("b01"))
	l.report("b02", Report{InFlight: 1})
	l.pass(time.Minute)
	l.want("unlisted b02")
	l.report("b02", Report{})
	l.in.Complete = false
	l.pass(time.Minute)
	l.want()
	l.in.Complete = true
	l.pass(settling)
	l.want()
	l.next()
	l.want("drained b02")
}

func TestDrainLimit(t *testing.T) {
	l := newLab(t, append(fleet(2, ""), backend("c", routing.Draining, ""))...)
	l.report("c", Report{InFlight: 3})
	l.pass(10 * time.Minute)
	l.want()
	if d := l.next(); len(d.Reasons) != 1 || d.Reasons[0].Text != "3 in flight after 10m0s" {
		t.Errorf("%+v", d)
	}
	l.want("overdue c")
}

// An operator's drain makes the backend the operator's: as long as a source lists it at this address it stays draining,
// since it would only come back.
func TestOperatorsDrain(t *testing.T) {
	drained := backend("a", routing.Draining, "")
	l := newLab(t, append(fleet(2, dns), drained)...)
	l.in.Found = list(l.get("b00"), l.get("b01"))
	rest := l.in.Found
	drained.Source = dns
	l.in.Found = append(list(drained), rest...)
	l.pass(time.Hour)
	l.want()
	l.in.Found[0].URL = "http://other:80" // another server took the name
	l.pass(time.Minute)
	l.want("moved a")

	l = newLab(t, append(fleet(2, dns), backend("a", routing.Draining, ""))...)
	l.in.Found = rest
	l.pass(time.Minute)
	l.want("drained a")
}

// A source that lists again what it dropped cancels the drain.
func TestReturned(t *testing.T) {
	l := newLab(t, fleet(3, dns)...)
	all := list(l.in.Epoch.Backends()...)
	l.report("b02", Report{InFlight: 1})
	l.in.Found = all[:2]
	l.next()
	l.in.Found = all
	l.next()
	l.want("unlisted b02", "returned b02")
	l.report("b02", Report{Ready: l.in.Members, InFlight: 1})
	l.next()
	l.want("ready b02")
}

// Discovery returns nothing: the last list stays; it is reported (scenario 23).
func TestBrokenSourceKeepsItsBackends(t *testing.T) {
	for name, broken := range map[string]bool{"no answer": true, "empty": false} {
		l := newLab(t, fleet(4, dns)...)
		l.in.Found = nil
		l.in.Broken[dns] = broken
		l.pass(time.Hour)
		l.want()
		wantHeld(t, l.next(), HeldBroken, dns)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// Scale to zero and back (scenario 25): leases may all run out, and the first that is ready serves at once.
func TestScaleToZeroAndBack(t *testing.T) {
	l := newLab(t, fleet(4, Lease)...)
	all := list(l.in.Epoch.Backends()...)
	l.pass(10 * time.Second)
	if n := len(l.in.Epoch.Backends()); n != 0 {
		t.Fatalf("%d are left: %v", n, l.log)
	}
	l.in.Now = l.in.Now.Add(10 * time.Second)
	l.log = nil
	l.in.Found = all
	l.next()
	l.ready("b03")
	l.next()
	l.want("joined b00", "joined b01", "joined b02", "joined b03", "ready b03")
}

func TestTaken(t *testing.T) {
	l := newLab(t, append(fleet(1, ""), backend("c", routing.Active, dns))...)
	l.in.Found = list(backend("b00", 0, Lease), backend("d", 0, Lease), backend("c", 0, dns), backend("c", 0, Lease))
	l.in.Found[0].URL = "http://other:80"
	l.in.Found[1].URL = "http://c:80"
	l.in.Found[3].URL = "http://elsewhere:80" // dns owns c
	d := l.next()
	wantHeld(t, d, HeldTaken, "b00")
	wantHeld(t, d, HeldTaken, "d")
	l.want()
}

// What one source drops and another lists goes on without a break.
func TestTakenOver(t *testing.T) {
	l := newLab(t, fleet(2, dns)...)
	l.in.Found = append(list(l.get("b00")), list(l.get("b01"))...)
	l.in.Found[1].Source = Lease
	l.pass(time.Minute)
	l.want("inherited b01")
	if b := l.get("b01"); b.State != routing.Active || b.Source != Lease {
		t.Errorf("%+v", b)
	}
	l.in.Broken[dns] = true // it may list b00 still
	l.in.Found[0].Source, l.in.Found[0].URL = Lease, "http://other:80"
	l.pass(time.Minute)
	l.want()
}

// A source that drops most of the fleet at once gets its way, but slowly.
func TestShrinkLimit(t *testing.T) {
	l := newLab(t, fleet(20, dns)...)
	l.in.Found = list(l.in.Epoch.Backends()[:1]...)
	d := l.next()
	if len(d.Change.PutBackends) != 4 {
		t.Fatalf("%d leave at once", len(d.Change.PutBackends))
	}
	wantHeld(t, d, HeldShrink, "b19")
	if d.Again != Default().EpochGap {
		t.Errorf("again after %s", d.Again)
	}
	l.pass(time.Minute)
	if left := l.in.Epoch.Backends(); len(left) != 1 {
		t.Errorf("%d are left", len(left))
	}
}

// All servers are replaced at once (scenario 20): the old ones serve until the new ones are ready.
func TestReplacedFleetServesOn(t *testing.T) {
	l := newLab(t, fleet(4, dns)...)
	var fresh []routing.Backend
	for _, id := range []string{"n0", "n1", "n2", "n3"} {
		fresh = append(fresh, backend(id, 0, dns))
	}
	l.in.Found = list(fresh...)
	l.pass(time.Minute)
	l.want("joined n0", "joined n1", "joined n2", "joined n3")
	wantHeld(t, l.next(), HeldFloor, "b00")
	for _, b := range fresh {
		l.ready(b.ID)
		l.pass(5 * time.Second)
		active := 0
		for _, have := range l.in.Epoch.Backends() {
			if have.State == routing.Active {
				active++
			}
		}
		if active != 4 {
			t.Errorf("%d serve", active)
		}
	}
	l.pass(10 * time.Second)
	if got := l.in.Epoch.Backends(); len(got) != 4 || got[0].ID != "n0" {
		t.Errorf("%v", got)
	}
}

// Replacements that never are ready do not keep for ever what its source dropped.
func TestFloorHasAnEnd(t *testing.T) {
	l := newLab(t, fleet(1, dns)...)
	l.in.Found = list(backend("n0", 0, dns))
	l.pass(10 * time.Minute)
	l.want("joined n0")
	l.pass(2 * time.Minute)
	l.want("unlisted b00", "drained b00")
}

// A server that comes and goes with each lookup (scenario 26).
func TestFlappingInDNS(t *testing.T) {
	l := newLab(t, fleet(3, dns)...)
	all := list(l.in.Epoch.Backends()...)
	l.in.Found = all
	l.pass(time.Minute)
	before := l.epochs
	for i := range 600 {
		l.in.Found = all[:2+i%2]
		if i%2 == 1 && l.get("b02").ID != "" {
			l.ready("b02")
		}
		l.pass(5 * time.Second)
	}
	if rate := float64(l.epochs-before) / 50; rate > 6 {
		t.Errorf("%.1f epochs a minute", rate)
	}
	l.in.Found = all
	l.pass(2 * time.Minute)
	l.ready("b02")
	l.pass(time.Minute)
	if !l.has("b02", routing.Active) {
		t.Error("it is out for ever")
	}
}

// Every server is replaced, one after another, under load (scenario 20): all but one serve at any time, none is given
// requests after its drain began, and nothing in flight is cut.
func TestRollingReplacement(t *testing.T) {
	const n = 6
	l := newLab(t, fleet(n, dns)...)
	listed := list(l.in.Epoch.Backends()...)
	for i := range n {
		old := listed[i].ID
		l.report(old, Report{InFlight: 5})
		listed[i] = list(backend("new-"+old, 0, dns))[0]
		l.in.Found = listed
		for second := range 40 {
			if second == 10 {
				l.ready("new-" + old)
			}
			if second == 30 {
				if !l.has(old, routing.Draining) {
					t.Fatalf("%s does not drain: %v", old, l.log)
				}
				l.report(old, Report{})
			}
			l.pass(time.Second)
			active := 0
			for _, b := range l.in.Epoch.Backends() {
				if b.State == routing.Active {
					active++
				}
			}
			if active < n {
				t.Fatalf("%d serve %d s after %s was replaced", active, second, old)
			}
		}
		l.want("joined new-"+old, "ready new-"+old, "unlisted "+old, "drained "+old)
	}
}
