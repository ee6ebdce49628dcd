package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
)

// log is a Fleet that agrees with itself.
type log struct {
	picker *routing.Picker
	before func(n int) error // called with the number of each write, from 0
	writes []Write
	leases []Lease
	ended  []string // leases, by id
}

func (l *log) Write(_ context.Context, w Write) (*routing.Epoch, error) {
	n := len(l.writes)
	l.writes = append(l.writes, w)
	if l.before != nil {
		if err := l.before(n); err != nil {
			return nil, fmt.Errorf("leader: %w", err)
		}
	}
	if w.Base.ID() != l.picker.Epoch().ID() {
		return nil, ErrConflict
	}
	return l.put(w.Change)
}

func (l *log) put(c routing.Change) (*routing.Epoch, error) {
	next, err := l.picker.Epoch().Apply(c)
	if err == nil {
		l.picker.SetEpoch(next)
	}
	return next, err
}

func (l *log) Renew(_ context.Context, lease Lease) error {
	if lease.TTL == 0 {
		l.ended = append(l.ended, lease.Backend.ID)
		return nil
	}
	l.leases = append(l.leases, lease)
	if l.before != nil {
		return l.before(len(l.leases) - 1)
	}
	return nil
}

// writable is an Admin over the fleet of fleetOf, and the log that it writes to.
func writable(t *testing.T) (*Admin, *log) {
	t.Helper()
	l := &log{picker: fleetOf(t)}
	return newAdmin(t, Default(), func(d *Deps) { d.Picker, d.Fleet = l.picker, l }), l
}

// described is a backend in a line.
func described(p *routing.Picker, id string) string {
	b, ok := backendOf(p.Epoch(), id)
	if !ok {
		return "none"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s w%v m%d %s %s", b.URL, b.Endpoint, b.Variant, b.Weight, b.MaxInflight, b.State, b.Source))
}

func TestWritesToBackends(t *testing.T) {
	for _, c := range []struct {
		name, request, body, id, want string
	}{
		{"add", "PUT /admin/v1/backends/d", `{"url":"http://h:1"}`, "d", "http://h:1 llama/blue w1 m0 joining"},
		{"add all", "PUT /admin/v1/backends/d", `{"id":"d","url":"http://h:1","endpoint":"llama","variant":"green","weight":2.5,"max_inflight":7}`, "d", "http://h:1 llama/green w2.5 m7 joining"},
		{"an id like an address", "PUT /admin/v1/backends/10.0.0.9:8000", `{"url":"http://10.0.0.9:8000"}`, "10.0.0.9:8000", "http://10.0.0.9:8000 llama/blue w1 m0 joining"},
		{"an escaped id", "PUT /admin/v1/backends/rack%2F1%3A80", `{"url":"http://h:1"}`, "rack/1:80", "http://h:1 llama/blue w1 m0 joining"},
		{"change one field", "PUT /admin/v1/backends/c", `{"max_inflight":9}`, "c", "http://10.0.0.3:8000 llama/green w1 m9 joining"},
		{"an active one stays so", "PUT /admin/v1/backends/a", `{"weight":3}`, "a", "http://10.0.0.1:8000 llama/blue w3 m0 active"},
		{"another variant", "PUT /admin/v1/backends/a", `{"variant":"green"}`, "a", "http://10.0.0.1:8000 llama/green w1 m0 active"},
		{"a new address", "PUT /admin/v1/backends/a", `{"url":"http://h:1"}`, "a", "http://h:1 llama/blue w1 m0 joining"},
		{"weight", "PUT /admin/v1/backends/c/weight", `{"weight":4}`, "c", "http://10.0.0.3:8000 llama/green w4 m5 joining"},
		{"drain", "POST /admin/v1/backends/a/drain", "", "a", "http://10.0.0.1:8000 llama/blue w1 m0 draining"},
		{"remove", "DELETE /admin/v1/backends/a", "", "a", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, l := writable(t)
			method, target, _ := strings.Cut(c.request, " ")
			var got Written
			w := ask(t, a, method, target, c.body, &got, "X-Request-Id", "mine")
			if want := (Written{Epoch: "1.2", Digest: digest(l.picker.Epoch())}); w.Code != http.StatusOK || got != want || w.Header().Get("ETag") != `"1.2"` {
				t.Errorf("%d %s, want %+v", w.Code, w.Body, want)
			}
			if got := described(l.picker, c.id); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if len(l.writes) != 1 || !strings.HasPrefix(l.writes[0].ID, "mine.") || l.writes[0].By != "admin from 192.0.2.1" || l.writes[0].Force {
				t.Errorf("writes: %+v", l.writes)
			}
		})
	}
}

func TestTheSameURLCancelsADrain(t *testing.T) {
	a, l := writable(t)
	ask(t, a, "POST", "/admin/v1/backends/a/drain", "", nil)
	ask(t, a, "PUT", "/admin/v1/backends/a", `{"url":"http://10.0.0.1:8000"}`, nil)
	if got := described(l.picker, "a"); got != "http://10.0.0.1:8000 llama/blue w1 m0 joining" {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsSoAlreadyIsNotWritten(t *testing.T) {
	a, l := writable(t)
	for _, body := range []string{`{}`, `{"weight":1}`, `{"url":"http://10.0.0.1:8000"}`} {
		var got Written
		if w := ask(t, a, "PUT", "/admin/v1/backends/a", body, &got); w.Code != http.StatusOK || got.Epoch != "1.1" || len(l.writes) != 0 {
			t.Errorf("%s: %d %s, %d writes", body, w.Code, w.Body, len(l.writes))
		}
	}
}

func TestWritesToEndpoints(t *testing.T) {
	a, l := writable(t)
	body := `{"aliases":["m"],"variants":[{"routing":{"prefix_length":2048}}]}`
	if w := ask(t, a, "PUT", "/admin/v1/endpoints/mistral", body, nil); w.Code != http.StatusOK {
		t.Fatalf("put: %d %s", w.Code, w.Body)
	}
	want := routing.Endpoint{Name: "mistral", Aliases: []string{"m"}, Variants: []routing.Variant{
		{Name: "main", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 2048}},
	}}
	if diff := cmp.Diff(want, l.picker.Epoch().Endpoints()[1]); diff != "" {
		t.Error(diff)
	}
	if w := ask(t, a, "DELETE", "/admin/v1/endpoints/mistral", "", nil); w.Code != http.StatusOK || l.picker.Epoch().Has("mistral") {
		t.Errorf("delete: %d %s", w.Code, w.Body)
	}
}

func TestRefusedWrites(t *testing.T) {
	for _, c := range []struct {
		request, body string
		status        int
		param, text   string
	}{
		{"PUT /admin/v1/backends/d", `{"ulr":"http://h:1"}`, 400, "ulr", "did you mean url?"},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1"`, 400, "", "not whole"},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1"}{}`, 400, "", "something follows"},
		{"PUT /admin/v1/backends/d", `[]`, 400, "", "must hold fields"},
		{"PUT /admin/v1/backends/d", ``, 400, "", "not whole"},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1","weight":"x"}`, 400, "weight", `"x" is not a number`},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1","weight":1,"weight":2}`, 400, "weight", "set already"},
		{"PUT /admin/v1/backends/d", `{}`, 400, "url", "needs one"},
		{"PUT /admin/v1/backends/d", `{"id":"e"}`, 400, "id", "the one in the path"},
		{"PUT /admin/v1/backends/d", `{"url":"ftp://h:1"}`, 422, "backends[d].url", "want http://"},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1","weight":0}`, 422, "backends[d].weight", "above 0"},
		{"PUT /admin/v1/backends/d", `{"url":"http://h:1","endpoint":"x"}`, 422, "backends[d].endpoint", `no endpoint "x"`},
		{"PUT /admin/v1/backends/d", `{"url":"http://10.0.0.1:8000"}`, 422, "backends[d].url", `the address of backend "a" too`},
		{"PUT /admin/v1/backends/d?force=yes", `{"url":"http://h:1"}`, 400, "force", "true or false"},
		{"PUT /admin/v1/backends/d/weight", `{"weight":1}`, 404, "id", `no backend "d" in epoch 1.1`},
		{"PUT /admin/v1/backends/a/weight", `{}`, 422, "backends[a].weight", "above 0"},
		{"POST /admin/v1/backends/d/drain", ``, 404, "id", `no backend "d"`},
		{"DELETE /admin/v1/backends/d", ``, 404, "id", `no backend "d"`},
		{"DELETE /admin/v1/leases/d", ``, 404, "id", `no lease of "d"`},
		{"DELETE /admin/v1/leases/a", ``, 404, "id", `no lease of "a"`},
		{"DELETE /admin/v1/endpoints/x", ``, 404, "name", `no endpoint "x"`},
		{"DELETE /admin/v1/endpoints/llama", ``, 422, "endpoints[llama]", "still has backends, remove or move them first: a, b, c"},
		{"PUT /admin/v1/endpoints/x", `{"name":"y"}`, 400, "name", "the one in the path"},
		{"PUT /admin/v1/endpoints/x", `{"variants":[{"routing":{"strategy":"BEST"}}]}`, 422, "endpoints[x].variants[main].routing.strategy", "want RANDOM"},
		{"PUT /admin/v1/endpoints/x", `{"variants":[{"routing":{"prefix_length":"long"}}]}`, 400, "variants[0].routing.prefix_length", "not auto or a number"},
		{"PUT /admin/v1/leases/d", `{"url":"http://h:1"}`, 400, "ttl", "such as 30s"},
		{"PUT /admin/v1/leases/d", `{"url":"http://h:1","ttl":30}`, 400, "ttl", "not a duration such as 30s"},
		{"PUT /admin/v1/leases/d", `{"url":"h","ttl":"30s"}`, 422, "backends[d].url", "want http://"},
		{"PUT /admin/v1/leases/a", `{"url":"http://h:1","ttl":"30s"}`, 422, "backends[a].url", `it is at "http://10.0.0.1:8000"`},
		{"PUT /admin/v1/leases/d", `{"url":"http://10.0.0.1:8000","ttl":"30s"}`, 422, "backends[d].url", `the address of backend "a" too`},
		{"PUT /admin/v1/fleet", `{}`, 400, "", "empty"},
		{"PUT /admin/v1/fleet", `{"api":{}}`, 400, "api", "unknown field"},
		{"PUT /admin/v1/fleet?dry_run=1", `{}`, 400, "dry_run", "true or false"},
		{"PUT /admin/v1/fleet", `{"backends":[{"url":"http://h:1"},{"url":"http://h:1","id":"x"}]}`, 422, "backends[1].url", "the address of backends[0] too"},
		{"PATCH /admin/v1/backends/a", ``, 405, "", "takes PUT or DELETE"},
	} {
		a, l := writable(t)
		method, target, _ := strings.Cut(c.request, " ")
		var got Error
		w := ask(t, a, method, target, c.body, &got)
		if w.Code != c.status || got.Error.Param != c.param || !strings.Contains(got.Error.Message, c.text) {
			t.Errorf("%s %s: %d %s", c.request, c.body, w.Code, w.Body)
		}
		if len(l.writes)+len(l.leases) > 0 {
			t.Errorf("%s %s was written", c.request, c.body)
		}
	}
}

func TestALargeBodyIsToldTheLimit(t *testing.T) {
	a, l := writable(t)
	var got Error
	w := ask(t, a, "PUT", "/admin/v1/fleet", strings.Repeat(" ", maxFleet+1), &got)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(got.Error.Message, "larger than 4194304 bytes") || len(l.writes) > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Each answer of the cluster has a status and words of its own.
func TestWhatTheClusterAnswers(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{ErrNoQuorum, 503, "no quorum"},
		{ErrUnknown, 503, "may have been applied"},
		{ErrConflict, 409, "somebody else"},
		{ErrShrink, 409, "force"},
		{context.DeadlineExceeded, 504, "may have been applied"},
		{errors.Join(&routing.ChangeError{Path: "backends[a].url", Msg: "bad"}), 422, "bad"},
		{errors.New("strange"), 500, "strange"},
	} {
		synctest.Test(t, func(t *testing.T) { // conflicts are waited out
			a, l := writable(t)
			l.before = func(int) error { return c.err }
			for _, request := range []string{"DELETE /admin/v1/backends/a", "PUT /admin/v1/leases/a"} {
				method, target, _ := strings.Cut(request, " ")
				var got Error
				w := ask(t, a, method, target, `{"url":"http://10.0.0.1:8000","ttl":"1m"}`, &got)
				if w.Code != c.status || !strings.Contains(got.Error.Message, c.text) {
					t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
				}
				if retry := w.Header().Get("Retry-After"); (retry != "") != errors.Is(c.err, ErrNoQuorum) {
					t.Errorf("%v: Retry-After %q", c.err, retry)
				}
			}
		})
	}
}

func TestARouterWithoutAnEpochTakesNoWrite(t *testing.T) {
	p := routing.NewPicker(routing.PickerConfig{})
	a := newAdmin(t, Default(), func(d *Deps) { d.Picker, d.Fleet = p, &log{picker: p} })
	for _, target := range []string{"/admin/v1/backends/a", "/admin/v1/leases/a"} {
		if w := ask(t, a, "PUT", target, `{"url":"http://h:1","ttl":"1m"}`, nil); w.Code == http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(t, a, "DELETE", "/admin/v1/backends/a", "", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestARouterWithoutAFleetIsReadOnly(t *testing.T) {
	a := newAdmin(t, Default(), nil)
	for _, request := range []string{"DELETE /admin/v1/backends/a", "PUT /admin/v1/leases/a"} {
		method, target, _ := strings.Cut(request, " ")
		if w := ask(t, a, method, target, "", nil); w.Code != http.StatusNotImplemented {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
}

// A write that meets another one is planned again on what that one left.
func TestConflictsArePlannedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := writable(t)
		l.before = func(n int) error {
			if n > 2 {
				return nil
			}
			go func() { // the other's epoch arrives a moment later
				time.Sleep(50 * time.Millisecond)
				if _, err := l.put(routing.Change{PutBackends: []routing.Backend{{ID: "z", URL: "http://z:1", Endpoint: "llama", Variant: "blue", Weight: float64(n + 1)}}}); err != nil {
					t.Error(err)
				}
			}()
			return ErrConflict
		}
		var got Written
		w := ask(t, a, "PUT", "/admin/v1/backends/a/weight", `{"weight":5}`, &got, "X-Request-Id", "r")
		if w.Code != http.StatusOK || got.Epoch != "1.5" || described(l.picker, "a") != "http://10.0.0.1:8000 llama/blue w5 m0 active" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		ids := ""
		for _, w := range l.writes {
			first, _ := strings.CutSuffix(l.writes[0].ID, "0")
			ids += strings.TrimPrefix(w.ID, first) + "@" + w.Base.ID() + " "
		}
		if ids != "0@1.1 1@1.2 2@1.3 3@1.4 " {
			t.Errorf("writes %s", ids)
		}
	})
}

// The same request under the same id is one write, another request is another one: proxies and programs send one id with
// all that they do for one cause.
func TestRequestIDs(t *testing.T) {
	a, l := writable(t)
	l.before = func(int) error { return ErrUnknown } // so that each of them is written
	requests := []struct{ method, target, body string }{
		{"PUT", "/admin/v1/backends/a/weight", `{"weight":5}`},
		{"PUT", "/admin/v1/backends/b/weight", `{"weight":5}`},
		{"PUT", "/admin/v1/backends/a/weight", `{"weight":6}`},
		{"DELETE", "/admin/v1/backends/a", ""},
		{"DELETE", "/admin/v1/backends/a?force=true", ""},
		{"PUT", "/admin/v1/fleet", `{"backends":[{"id":"a","url":"http://h:1"}]}`},
		{"PUT", "/admin/v1/fleet", `{"backends":[{"id":"a","url":"http://h:2"}]}`},
	}
	of := map[string]int{} // who has an id
	for i, r := range append(requests, requests...) {
		ask(t, a, r.method, r.target, r.body, nil, "X-Request-Id", "r")
		i %= len(requests)
		id := l.writes[len(l.writes)-1].ID
		if first, known := of[id]; known && first != i {
			t.Errorf("%v and %v are %q", requests[first], r, id)
		}
		of[id] = i
	}
	if len(l.writes) != 2*len(requests) || len(of) != len(requests) {
		t.Errorf("%d writes under %d ids", len(l.writes), len(of))
	}
}

// With If-Match the client decides what it meets.
func TestIfMatch(t *testing.T) {
	for _, c := range []struct {
		match  string
		status int
	}{{`"1.1"`, 200}, {"1.1", 200}, {"*", 200}, {`"1.2"`, 409}, {`"2.1"`, 409}} {
		synctest.Test(t, func(t *testing.T) {
			a, l := writable(t)
			w := ask(t, a, "DELETE", "/admin/v1/backends/a", "", nil, "If-Match", c.match)
			if w.Code != c.status || (len(l.writes) == 1) != (c.status == 200) {
				t.Errorf("%s: %d %s", c.match, w.Code, w.Body)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a, l := writable(t)
		l.before = func(int) error { return ErrConflict }
		if w := ask(t, a, "DELETE", "/admin/v1/backends/a", "", nil, "If-Match", "1.1"); w.Code != http.StatusConflict || len(l.writes) != 1 {
			t.Errorf("%d %s after %d writes", w.Code, w.Body, len(l.writes))
		}
	})
}

func TestPagesFromElsewhereCannotWrite(t *testing.T) {
	a, l := writable(t)
	for header, want := range map[string]int{"Sec-Fetch-Site: cross-site": 403, "Origin: http://evil.example": 403, "Sec-Fetch-Site: same-origin": 200, "Origin: http://example.com": 200} {
		name, value, _ := strings.Cut(header, ": ")
		if w := ask(t, a, "POST", "/admin/v1/backends/a/drain", "", nil, name, value); w.Code != want {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
	}
	if len(l.writes) != 1 { // the second has nothing to do
		t.Errorf("%d writes", len(l.writes))
	}
}

func TestLeases(t *testing.T) {
	a, l := writable(t)
	var got Leased
	w := ask(t, a, "PUT", "/admin/v1/leases/a", `{"url":"http://10.0.0.1:8000","max_inflight":3,"ttl":"30s"}`, &got)
	if want := (Leased{ID: "a", TTL: 30, State: "active", Epoch: "1.1"}); w.Code != http.StatusOK || got != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	ask(t, a, "PUT", "/admin/v1/leases/n%2F1", `{"url":"http://n:1","variant":"green","ttl":"1m"}`, &got)
	if want := (Leased{ID: "n/1", TTL: 60, Epoch: "1.1"}); got != want {
		t.Errorf("got %+v", got)
	}
	want := []Lease{
		{routing.Backend{ID: "a", URL: "http://10.0.0.1:8000", Endpoint: "llama", Variant: "blue", Weight: 1, MaxInflight: 3, Source: "lease"}, 30 * time.Second},
		{routing.Backend{ID: "n/1", URL: "http://n:1", Endpoint: "llama", Variant: "green", Weight: 1, Source: "lease"}, time.Minute},
	}
	if diff := cmp.Diff(want, l.leases); diff != "" {
		t.Error(diff)
	}
}

// A backend that ends its lease drains and stays its lease's, so that the next one brings it back.
func TestTheEndOfALease(t *testing.T) {
	a, l := writable(t)
	for _, id := range []string{"n", "m"} {
		b := routing.Backend{ID: id, URL: "http://" + id + ":1", Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active, Source: "lease"}
		if _, err := l.put(routing.Change{PutBackends: []routing.Backend{b}}); err != nil {
			t.Fatal(err)
		}
	}
	var got Written
	if w := ask(t, a, "DELETE", "/admin/v1/leases/n", "", &got); w.Code != http.StatusOK || got.Epoch != "1.4" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := described(l.picker, "n"); got != "http://n:1 llama/blue w1 m0 draining lease" {
		t.Errorf("got %s", got)
	}
	ask(t, a, "POST", "/admin/v1/backends/m/drain", "", nil) // people's: it stays so
	if w := ask(t, a, "DELETE", "/admin/v1/leases/m", "", &got); w.Code != http.StatusOK || got.Epoch != "1.5" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	ask(t, a, "DELETE", "/admin/v1/leases/soon", "", nil) // of which this router has not heard yet
	if diff := cmp.Diff([]string{"n", "m", "soon"}, l.ended); diff != "" {
		t.Error(diff)
	}
}

// What another lease has may be taken: it runs out, or the backend has moved.
func TestALeaseMayTakeThePlaceOfAnother(t *testing.T) {
	a, l := writable(t)
	b := routing.Backend{ID: "n", URL: "http://n:1", Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active, Source: "lease"}
	if _, err := l.put(routing.Change{PutBackends: []routing.Backend{b}}); err != nil {
		t.Fatal(err)
	}
	for target, body := range map[string]string{"n": `{"url":"http://n:2","ttl":"30s"}`, "m": `{"url":"http://n:1","ttl":"30s"}`} {
		if w := ask(t, a, "PUT", "/admin/v1/leases/"+target, body, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}
