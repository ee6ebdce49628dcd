package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing"
)

const applied = `{
  "endpoints": [{"name": "llama", "aliases": ["small"], "variants": [
    {"name": "blue", "weight": 2},
    {"name": "green", "weight": 0, "routing": {"prefix_length": 1024, "concurrency_threshold": 8}}]}],
  "backends": [
    {"id": "a", "url": "http://10.0.0.1:8000", "max_inflight": 4},
    {"id": "b", "url": "http://10.0.0.9:8000"},
    {"url": "http://10.0.0.4:8000", "weight": 2}]}`

func TestApply(t *testing.T) {
	steps := []Step{
		{"endpoint", "llama", "change", []FieldChange{{"variants[blue].weight", "1", "2"}}},
		{"backend", "10.0.0.4:8000", "add", []FieldChange{
			{"url", "", "http://10.0.0.4:8000"}, {"endpoint", "", "llama"}, {"variant", "", "blue"}, {"weight", "", "2"}, {"state", "", "joining"},
		}},
		{"backend", "a", "change", []FieldChange{{"max_inflight", "", "4"}}},
		{"backend", "b", "change", []FieldChange{{"url", "http://10.0.0.2:8000", "http://10.0.0.9:8000"}, {"state", "active", "joining"}}},
	}
	pruned := append(slices.Clip(steps), Step{"backend", "c", "drain", []FieldChange{{"state", "joining", "draining"}}})
	for _, c := range []struct {
		query string
		dry   bool
		steps []Step
	}{{"", false, steps}, {"?dry_run=true&force=false", true, steps}, {"?prune=true&force=true", false, pruned}, {"?prune=true&dry_run=true", true, pruned}} {
		a, l := writable(t)
		var got, again Applied
		w := ask(t, a, "PUT", "/admin/v1/fleet"+c.query, applied, &got)
		want := Applied{Base: "1.1", DryRun: c.dry, Difference: c.steps}
		if !c.dry {
			want.Epoch, want.Digest = "1.2", digest(l.picker.Epoch())
		}
		if diff := cmp.Diff(want, got); diff != "" || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", c.query, w.Code, diff)
		}
		if len(l.writes) > 0 && (c.dry || l.writes[0].Force != strings.Contains(c.query, "force=true")) {
			t.Errorf("%s: %+v", c.query, l.writes)
		}
		ask(t, a, "PUT", "/admin/v1/fleet"+c.query, applied, &again)
		if !c.dry && (len(again.Difference) > 0 || again.Epoch != "1.2" || len(l.writes) != 1) {
			t.Errorf("%s again: %+v", c.query, again)
		}
	}
}

// What goes with its endpoint cannot drain: nobody could ask for it any more.
func TestPruningAnEndpoint(t *testing.T) {
	a, l := writable(t)
	var got Applied
	ask(t, a, "PUT", "/admin/v1/fleet?prune=true", `{"endpoints":[{"name":"new"}],"backends":[{"url":"http://n:1"}]}`, &got)
	var words []string
	for _, s := range got.Difference {
		words = append(words, s.Action+" "+s.ID)
	}
	if got := strings.Join(words, ", "); got != "remove llama, add new, remove a, remove b, remove c, add n:1" || len(l.writes) != 1 {
		t.Errorf("got %s", got)
	}
}

// A backend may belong to an endpoint that the file does not name.
func TestApplyingBackendsAlone(t *testing.T) {
	a, l := writable(t)
	w := ask(t, a, "PUT", "/admin/v1/fleet", `{"backends":[{"url":"http://n:1"}]}`, nil)
	if got := described(l.picker, "n:1"); got != "http://n:1 llama/blue w1 m0 joining" {
		t.Errorf("%s: %d %s", got, w.Code, w.Body)
	}
}

func TestSummary(t *testing.T) {
	was := fleetOf(t).Epoch()
	many := routing.Change{Drain: []string{"a"}, RemoveBackends: []string{"b"}, PutEndpoints: []routing.Endpoint{{Name: "n", Variants: []routing.Variant{{Name: "v", Weight: 1, Policy: routing.Policy{Strategy: routing.Random}}}}}}
	for i := range 20 {
		many.PutBackends = append(many.PutBackends, routing.Backend{ID: fmt.Sprintf("x%02d", i), URL: fmt.Sprintf("http://x:%d", i+1), Endpoint: "n", Variant: "v", Weight: 1})
	}
	is, err := was.Apply(many)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range Summary(was, is) {
		got += fmt.Sprintf("%s %d %s..%s; ", c.Kind, c.Count, c.IDs[0], c.IDs[len(c.IDs)-1])
	}
	if got != "endpoints added 1 n..n; backends draining 1 a..a; backends removed 1 b..b; backends added 20 x00..x15; " {
		t.Errorf("got %s", got)
	}
	if same := Summary(is, is); same == nil || len(same) > 0 {
		t.Errorf("of nothing: %v", same)
	}
}

func TestMembersAndEpochs(t *testing.T) {
	a := newAdmin(t, Default(), func(d *Deps) {
		d.Members = func() []Member { return []Member{{Name: "r1-00000001", Router: "r1", Role: "leader", Self: true}} }
		d.Epochs = func() []EpochInfo { return []EpochInfo{{ID: "1.1", By: "file", Changes: []EpochChange{}}} }
		d.Cluster = func() ClusterStatus { return ClusterStatus{ID: "c", Role: "leader", Quorum: true} }
	})
	var members []Member
	var epochs []EpochInfo
	var status Status
	var snapshot Snapshot
	ask(t, a, "GET", "/admin/v1/members", "", &members)
	ask(t, a, "GET", "/admin/v1/epochs", "", &epochs)
	ask(t, a, "GET", "/admin/v1/status", "", &status)
	ask(t, a, "GET", "/admin/v1/snapshot", "", &snapshot)
	if len(members) != 1 || !members[0].Self || len(epochs) != 1 || epochs[0].By != "file" {
		t.Errorf("members %+v, epochs %+v", members, epochs)
	}
	for _, c := range []*ClusterStatus{status.Cluster, snapshot.Cluster} {
		if c == nil || c.ID != "c" || c.Voters == nil {
			t.Errorf("cluster %+v", c)
		}
	}
	if len(snapshot.Members) != 1 {
		t.Errorf("snapshot's members %+v", snapshot.Members)
	}
}
