package admin

import (
	"fmt"
	"io"
	"net/http"

	"github.com/warmring/warmring/api"
)

// explain answers how the body of a request would be routed now.
func (a *Admin) explain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		a.refuse(w, &invalidError{error: err})
		return
	}
	query := r.URL.Query()
	got, err := api.Explain(a.deps.Picker.Epoch(), a.deps.Window, query.Get("kind"), query.Get("endpoint"), r.Header, body)
	if err != nil {
		a.refuse(w, &invalidError{error: err})
		return
	}
	a.write(w, http.StatusOK, a.explanation(&got))
}

func (a *Admin) explanation(got *api.Explained) Explanation {
	pl := &got.Place
	out := Explanation{
		Epoch: pl.Epoch().ID(), Endpoint: pl.Endpoint(), Variant: pl.Variant(),
		Model: got.Model, Adapter: got.Adapter, Tenant: got.Tenant,
		Strategy: string(pl.Strategy()), Key: fmt.Sprintf("%016x", pl.Pin()),
		TextBytes: got.TextBytes, Depth: got.Depth, PromptTokens: a.deps.Picker.PromptTokens(pl), HotBytes: pl.Hot(), Home: pl.Home(),
		Candidates: []Candidate{},
	}
	for _, l := range pl.Levels() {
		out.HotLevels = append(out.HotLevels, HotLevel{First: fmt.Sprintf("%016x", l.First), Chunks: l.Length, Servers: l.Servers})
	}
	for _, c := range a.deps.Picker.Explain(pl, a.deps.Now()) {
		out.Candidates = append(out.Candidates, Candidate{
			Rank: c.Rank, ID: c.Backend.ID, URL: c.Backend.URL,
			InFlight: c.InFlight, PeerInFlight: c.PeerInFlight, Prefill: c.PrefillTokens + c.PeerPrefill, Have: c.Have, Cost: c.Cost,
			Hot: c.Hot, Placed: c.Placed, Work: c.Work, Pace: c.Pace, Late: c.Late, Filled: c.Filled, Beyond: c.Beyond, Eligible: c.Eligible, Reason: c.Reason,
		})
	}
	return out
}
