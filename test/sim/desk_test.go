package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/routing"
)

// The words of scenarios about the fleet: what an operator does and sees, and requests asked one by one.

// settle waits for a cluster to be of one mind.
func (w *World) settle(c *Cluster) {
	w.Soon("settled", 15*time.Second, c.Settled)
}

// call sends an admin request that must succeed.
func (w *World) call(r *Router, method, route, body string) {
	if err := r.Call(method, route, body, nil); err != nil {
		w.Fatalf("%s at %s: %v", method, r.Name, err)
	}
}

// put adds a model server to the fleet, or moves the backend of that id to it.
func (w *World) put(r *Router, id string, m *Model) {
	w.call(r, http.MethodPut, "backends/"+id, fmt.Sprintf(`{"url":%q}`, m.URL()))
}

// drain lets a backend finish; also the last one of an endpoint.
func (w *World) drain(r *Router, id string) {
	w.call(r, http.MethodPost, "backends/"+id+"/drain?force=true", "")
}

// renew takes a lease of so many seconds for a model server.
func (w *World) renew(r *Router, m *Model, seconds int) {
	w.call(r, http.MethodPut, "leases/"+m.Name, fmt.Sprintf(`{"url":%q,"ttl":"%ds"}`, m.URL(), seconds))
}

// backends is what a router says of all model servers.
func (w *World) backends(r *Router) []admin.BackendStatus {
	var list []admin.BackendStatus
	if err := r.Get("backends", &list); err != nil {
		w.Fatalf("backends of %s: %v", r.Name, err)
	}
	for _, b := range list {
		if b.InFlight < 0 || b.PeerInFlight < 0 || b.Prefill < 0 || b.PeerPrefill < 0 {
			w.Errorf("%s counts less than nothing: %+v", r.Name, b)
		}
	}
	return list
}

// backend is what a router says of one that is in the fleet.
func (w *World) backend(r *Router, id string) admin.BackendStatus {
	for _, b := range w.backends(r) {
		if b.ID == id && !b.Gone {
			return b
		}
	}
	return admin.BackendStatus{}
}

// counts are the requests in flight that a router has itself and has heard of.
func (w *World) counts(r *Router) (own, peers int) {
	for _, b := range w.backends(r) {
		own, peers = own+b.InFlight, peers+b.PeerInFlight
	}
	return own, peers
}

// agreed is a backend in the epoch that a router uses; false: it has none of that id. It takes no virtual time.
func (r *Router) agreed(id string) (routing.Backend, bool) {
	for _, b := range r.Node().Epoch().Backends() {
		if b.ID == id {
			return b, true
		}
	}
	return routing.Backend{}, false
}

// is says whether every router that runs has a backend in that state; for Soon.
func (c *Cluster) is(state routing.State, ids ...string) func() bool {
	return c.all(func(r *Router) bool {
		for _, id := range ids {
			if b, ok := r.agreed(id); !ok || b.State != state {
				return false
			}
		}
		return true
	})
}

// without says whether no router has a backend of that id; for Soon.
func (c *Cluster) without(ids ...string) func() bool {
	return c.all(func(r *Router) bool {
		for _, id := range ids {
			if _, ok := r.agreed(id); ok {
				return false
			}
		}
		return true
	})
}

// all says whether something is true of every router that runs; for Soon.
func (c *Cluster) all(f func(*Router) bool) func() bool {
	return func() bool {
		for _, r := range c.Routers {
			if r.Running() && !f(r) {
				return false
			}
		}
		return true
	}
}

// answer is how one request ended.
type answer struct {
	status                        int
	backend, home, decision, text string
	took                          time.Duration
}

// caller asks one by one, from a host of its own.
type caller struct {
	w      *World
	client http.Client
	asked  sync.WaitGroup
}

func (w *World) caller() *caller {
	transport := &http.Transport{DialContext: w.Host("clients").Dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	w.AtEnd(transport.CloseIdleConnections)
	return &caller{w: w, client: http.Client{Transport: transport}}
}

// chat is the body of a request for an answer of so many tokens.
func chat(prompt string, tokens int) string {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": tokens, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// padded is a prompt of so many bytes that begins with a text of its own.
func padded(text string, size int) string {
	return text + strings.Repeat(" x", max(0, size-len(text))/2)
}

// ask sends a request and waits for the whole answer; status 0: there was none.
func (c *caller) ask(r *Router, prompt string, tokens int) answer {
	return c.post(r, chat(prompt, tokens))
}

func (c *caller) post(r *Router, body string) (a answer) {
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	req, err := http.NewRequestWithContext(c.w.ctx, http.MethodPost, r.URL()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or nobody cares
	var text bytes.Buffer
	if _, err := io.Copy(&text, resp.Body); err != nil {
		return answer{text: err.Error()}
	}
	h := resp.Header
	return answer{
		status: resp.StatusCode, text: text.String(),
		backend: h.Get("X-Warmring-Backend"), home: h.Get("X-Warmring-Home"), decision: h.Get("X-Warmring-Decision"),
	}
}

// begin asks in the background; then gets the answer, or nothing.
func (c *caller) begin(r *Router, prompt string, tokens int, then func(answer)) {
	c.send(r, chat(prompt, tokens), then)
}

// send posts a body in the background; then gets the answer, or nothing.
func (c *caller) send(r *Router, body string, then func(answer)) {
	c.asked.Add(1)
	c.w.background.Go(func() {
		defer c.asked.Done()
		if a := c.post(r, body); then != nil {
			then(a)
		}
	})
}

// homes are where a router's map puts bodies. It takes no virtual time.
func (w *World) homes(r *Router, bodies []string) []string {
	homes := make([]string, len(bodies))
	epoch := r.Node().Epoch()
	for i, body := range bodies {
		place := w.place(epoch, body)
		homes[i] = place.Home()
	}
	return homes
}

// place is where an epoch's map puts a body.
func (w *World) place(e *routing.Epoch, body string) routing.Place {
	explained, err := api.Explain(e, 0, "chat", "", nil, []byte(body))
	if err != nil {
		w.Fatalf("the place of %q: %v", body, err)
	}
	return explained.Place
}

// scrape reads a router's metrics.
func (w *World) scrape(r *Router) string {
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+r.Name+":"+adminPort+"/metrics", http.NoBody)
	if err != nil {
		w.Fatalf("metrics of %s: %v", r.Name, err)
	}
	resp, err := r.desk.Do(req)
	if err != nil {
		w.Fatalf("metrics of %s: %v", r.Name, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.Fatalf("metrics of %s: status %d, %v", r.Name, resp.StatusCode, err)
	}
	return string(text)
}

// caption begins a prompt that no other seed has.
func (w *World) caption(i int) string { return fmt.Sprintf("question %d of seed %d.", i, w.Seed) }

// stays is an error unless all routers that know the backend have it active; for Always.
func (c *Cluster) stays(id string) error {
	for _, r := range c.Routers {
		if b, ok := r.agreed(id); ok && b.State != routing.Active {
			return fmt.Errorf("at %s %s is %s", r.Name, id, b.State)
		}
	}
	return nil
}
