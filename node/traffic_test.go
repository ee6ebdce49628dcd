package node

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/warmring/warmring/api/admin"
)

// snapshot is what the dashboard would show now.
func (r *running) snapshot(t *testing.T) admin.Snapshot {
	t.Helper()
	status, text := r.get(t, "http://"+r.AdminAddr()+"/admin/v1/snapshot")
	var s admin.Snapshot
	if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	return s
}

func TestTheDashboardShowsRequestsAndChanges(t *testing.T) {
	_, first := startModel(t, "gpu-0")
	_, second := startModel(t, "gpu-1")
	n := start(t, testConfig(first))
	drainBody(t, n.send(t, true, 4))  // has a time to first token
	drainBody(t, n.send(t, false, 4)) // tells its cached tokens

	var s admin.Snapshot
	eventually(t, "the requests are counted", func() bool { // an answer ends for its client first
		s = n.snapshot(t)
		return s.Decisions["home"] == 2
	})
	if s.Router != "warmring" || s.Version != "v0" || !s.Ready || s.Epoch != "1.1" || s.Now.Requests == 0 || s.Now.Errors != 0 ||
		s.Now.HitRate == nil || s.Now.TTFTp50 == nil || s.OverheadP50 == nil || s.HistoryStep != 5 {
		t.Errorf("%+v", s)
	}
	if len(s.Backends) != 1 || s.Backends[0].ID != "gpu-0" || s.Backends[0].Share == nil || *s.Backends[0].Share != 1 || s.Backends[0].Minute.Requests == 0 {
		t.Errorf("%+v", s.Backends)
	}
	if err := n.Reload(t.Context(), testConfig(first, second)); err != nil {
		t.Fatal(err)
	}
	if c := n.snapshot(t).Changes[0]; c.Kind != "added" || c.Subject != "gpu-1" || c.Epoch != "1.2" {
		t.Errorf("%+v", c)
	}
	if status, text := n.get(t, "http://"+n.AdminAddr()+"/ui/"); status != http.StatusOK || !strings.Contains(text, "<title>warmring</title>") {
		t.Errorf("the page: %d", status)
	}
}
