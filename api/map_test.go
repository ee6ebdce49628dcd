package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/hot"
	"github.com/warmring/warmring/routing/proxy"
)

// pins answers each request with its pin, and the edge that does.
func pins(t testing.TB, names ...string) *edge {
	t.Helper()
	return pinsIn(t, fleet(t, names, "http://127.0.0.1:1"))
}

func pinsIn(t testing.TB, epoch *routing.Epoch) *edge {
	t.Helper()
	return newEdge(t, epoch, withProxy(func(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
		if err := a.Begin(&proxy.Reply{Status: 200, Lease: lease(r)}); err != nil {
			return proxy.Result{}, err
		}
		_, err := fmt.Fprintf(a, "%s %x", r.Place.Endpoint(), r.Place.Pin())
		a.End(nil, nil)
		return proxy.Result{Status: 200}, err
	}))
}

const (
	systemChat = `{"model":"llama","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}]}`
	chatRoute  = "/v1/chat/completions"
)

// System prompt and tools are part of the key, as are tenant, adapter and
// model; what does not change the prompt is not.
func TestKey(t *testing.T) {
	e := pins(t, "llama", "other")
	base := e.do(t, "POST", chatRoute, systemChat).body
	for _, c := range []struct {
		what, path, body string
		headers          []string
		same             bool
	}{
		{what: "itself", path: chatRoute, body: systemChat, same: true},
		{what: "temperature, stream", path: chatRoute, body: strings.Replace(systemChat, `{"model"`, `{"temperature":0.5,"stream":true,"model"`, 1), same: true},
		{what: "order", path: chatRoute, body: `{"messages":[{"content":"be brief","role":"system"},{"content":"hello","role":"user"}],"model":"llama"}`, same: true},
		{what: "white space", path: chatRoute, body: strings.ReplaceAll(systemChat, ",", " ,\n"), same: true},
		{what: "alias", path: chatRoute, body: strings.Replace(systemChat, "llama", "llama-alias", 1), same: true},
		{what: "endpoint in the URL", path: "/endpoints/llama/openai" + chatRoute, body: systemChat, same: true},
		{what: "system prompt", path: chatRoute, body: strings.Replace(systemChat, "brief", "long", 1)},
		{what: "tools", path: chatRoute, body: strings.Replace(systemChat, `{"model"`, `{"tools":[{"type":"function","function":{"name":"f"}}],"model"`, 1)},
		{what: "tenant", path: chatRoute, body: strings.Replace(systemChat, `{"model"`, `{"prompt_cache_key":"t","model"`, 1)},
		{what: "cache salt", path: chatRoute, body: strings.Replace(systemChat, `{"model"`, `{"cache_salt":"s","model"`, 1)},
		{what: "tenant in a header", path: chatRoute, body: systemChat, headers: []string{"X-Amzn-SageMaker-Prefix-Aware-Id", "t2"}},
		{what: "adapter", path: chatRoute, body: strings.Replace(systemChat, "llama", "llama-lora", 1)},
		{what: "model", path: chatRoute, body: strings.Replace(systemChat, "llama", "other", 1)},
		{what: "a name of the server's own", path: "/endpoints/llama/openai" + chatRoute, body: strings.Replace(systemChat, "llama", "own", 1)},
	} {
		got := e.do(t, "POST", c.path, c.body, c.headers...)
		if got.StatusCode != http.StatusOK || (got.body == base) != c.same {
			t.Errorf("%s: %d %s, base %s", c.what, got.StatusCode, got.body, base)
		}
	}
	header := []string{"X-Amzn-SageMaker-Prefix-Aware-Id", "t"}
	other := strings.Replace(systemChat, `{"model"`, `{"prompt_cache_key":"other","model"`, 1)
	if e.do(t, "POST", chatRoute, systemChat, header...).body != e.do(t, "POST", chatRoute, other, header...).body {
		t.Error("the header does not win over the body")
	}
	if e.do(t, "POST", "/endpoints/llama/inference-components/llama-lora/openai"+chatRoute, systemChat).body !=
		e.do(t, "POST", chatRoute, strings.Replace(systemChat, "llama", "llama-lora", 1)).body {
		t.Error("the component is not the adapter")
	}
	if e.do(t, "POST", "/endpoints/llama/invocations", systemChat).body == e.do(t, "POST", "/endpoints/llama/invocations", systemChat+" ").body {
		t.Error("invoke does not look at the bytes")
	}
}

// The same pin on every replica, for a body that arrives in any pieces.
func TestKeyIsStable(t *testing.T) {
	body := strings.Replace(systemChat, "hello", pad(3<<10), 1)
	want := pins(t, "llama").do(t, "POST", chatRoute, body).body
	e := pins(t, "llama")
	for _, size := range []int{1, 7, 100, 5000} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+chatRoute, &trickle{body, size})
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, _ := res.Body.Read(buf)
		_ = res.Body.Close()
		if string(buf[:n]) != want {
			t.Errorf("in pieces of %d: %s, want %s", size, buf[:n], want)
		}
	}
}

// A prefix of n characters is that many whatever they take in bytes: the text
// is read again where the first scan was too short.
func TestKeyOfWideCharacters(t *testing.T) {
	fixed := routing.Endpoint{Name: "llama", Variants: []routing.Variant{
		{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 1024}},
	}}
	epoch, err := fleet(t, []string{"llama"}, "http://127.0.0.1:1").Apply(routing.Change{PutEndpoints: []routing.Endpoint{fixed}})
	if err != nil {
		t.Fatal(err)
	}
	e := pinsIn(t, epoch)
	for name, char := range map[string]string{"ASCII": "a", "two bytes": "é", "three bytes": "前", "four bytes": "😀"} {
		key := func(n int, tail, more string) string {
			body := `{"model":"llama","messages":[{"role":"user","content":"` + strings.Repeat(char, n) + tail + `"}]` + more + `}`
			got := e.do(t, "POST", chatRoute, body).body
			explained, err := Explain(epoch, 0, "chat", "", http.Header{}, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("llama %x", explained.Place.Pin()); got != want {
				t.Errorf("%s: key %s, explained as %s", name, got, want)
			}
			return got
		}
		if key(1024, "x", "") != key(1024, "y", "") {
			t.Errorf("%s: what follows 1,024 characters matters", name)
		}
		if key(1000, "x", "") == key(1000, "y", "") {
			t.Errorf("%s: what follows 1,000 characters does not matter", name)
		}
		if key(1024, "x", "") != key(1024, "x", `,"temperature":1,"temperature":2,"messages":[{"role":"user","content":"`+strings.Repeat(char, 1024)+`x"}]`) {
			t.Errorf("%s: a body with a key twice has another key", name)
		}
	}
}

// trickle yields text in pieces.
type trickle struct {
	text string
	size int
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(r.size, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

// Explain says what the data plane does.
func TestExplain(t *testing.T) {
	e := pins(t, "llama", "other")
	epoch := e.api.deps.Epoch()
	for _, c := range []struct{ kind, endpoint, path, body string }{
		{"chat", "", chatRoute, systemChat},
		{"chat", "llama", "/endpoints/llama/openai" + chatRoute, systemChat},
		{"completions", "", "/v1/completions", `{"model":"other","prompt":"a b c"}`},
		{"embeddings", "", "/v1/embeddings", `{"model":"llama","input":["a"]}`},
		{"invocations", "llama", "/endpoints/llama/invocations", "anything"},
		{"chat", "", chatRoute, `{"model":"llama","messages":[],"messages":[{"role":"user","content":"twice"}]}`},
	} {
		got, err := Explain(epoch, 0, c.kind, c.endpoint, http.Header{}, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		text := fmt.Sprintf("%s %x", got.Place.Endpoint(), got.Place.Pin())
		if want := e.do(t, "POST", c.path, c.body).body; text != want {
			t.Errorf("%s: explained as %s, was %s", c.body, text, want)
		}
		if got.TextBytes == 0 || got.Depth == 0 {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
	for _, c := range []struct{ kind, endpoint, body string }{
		{"nonsense", "", systemChat}, {"chat", "nobody", systemChat}, {"chat", "", "{"}, {"chat", "", `{"model":"nobody","messages":[]}`},
	} {
		if got, err := Explain(epoch, 0, c.kind, c.endpoint, http.Header{}, []byte(c.body)); err == nil {
			t.Errorf("%v: no error, %+v", c, got)
		}
	}
}

func TestModels(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama", "other"}), nil)
	for path, want := range map[string]string{
		"/v1/models":                         "llama llama-alias llama-lora other other-alias other-lora",
		"/endpoints/other/openai/v1/models/": "other other-alias other-lora",
		"/endpoints/other/inference-components/other-lora/openai/v1/models": "other-lora",
	} {
		var list struct {
			Object string
			Data   []modelCard
		}
		if err := json.Unmarshal([]byte(e.do(t, "GET", path, "").body), &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want || list.Object != "list" {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if empty := newEdge(t, routing.NewEpoch(1, 1), nil).do(t, "GET", "/v1/models", ""); empty.body != `{"object":"list","data":[]}` {
		t.Errorf("of no endpoint: %s", empty.body)
	}
}

// Many at once do not mix.
func TestConcurrent(t *testing.T) {
	e := newEdge(t, fleet(t, []string{"llama"}, modelServer(t, echo)), nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				body := strings.Replace(hello, "hello", pad(1+(i*j*997)%50000)+fmt.Sprint(i, j), 1)
				if res := e.do(t, "POST", chatRoute, body); res.StatusCode != http.StatusOK || res.body != body {
					t.Errorf("%d %d: %d, %d bytes for %d", i, j, res.StatusCode, len(res.body), len(body))
				}
			}
		})
	}
	wg.Wait()
}

// A request that is not counted has the place of one that is, however deep what is hot of it.
func TestUncountedRequestsArePlacedAlike(t *testing.T) {
	urls := []string{"http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3", "http://127.0.0.1:4"}
	epoch := fleet(t, []string{"llama"}, urls...)
	picker, counted := routing.NewPicker(routing.PickerConfig{}), false
	picker.SetEpoch(epoch)
	e := newEdge(t, epoch, func(_ *Config, d *Deps) {
		d.Counts = func(uint64) bool { return counted }
		d.Proxy = deciding{picker}
		d.Epoch = picker.Epoch
	})
	ask := func(document, question string) string {
		body := `{"model":"llama","messages":[{"role":"system","content":"` + strings.Repeat(document, 20_000) + `"},{"role":"user","content":"` + question + `"}]}`
		return e.do(t, "POST", chatRoute, body).body
	}
	counted = true
	for i := range 40 {
		ask("d", fmt.Sprint("question ", i))
	}
	made := hot.Make(nil, []hot.Report{picker.Sketch().Report(1.5, 1000)}, hot.Config{Servers: len(urls)})
	if made.Chunks < 70 {
		t.Fatalf("%d chunks are hot", made.Chunks)
	}
	next, err := epoch.Apply(routing.Change{Hot: &routing.HotTable{Runs: made.Runs}})
	if err != nil {
		t.Fatal(err)
	}
	picker.SetEpoch(next)
	for _, document := range []string{"d", "e", "d", "前", "\\\""} {
		counted = false
		uncounted := ask(document, "another")
		if counted = true; ask(document, "another") != uncounted {
			t.Errorf("%s: placed in two ways", document)
		}
	}
}

// deciding answers with the place of a request and where it went.
type deciding struct{ *routing.Picker }

func (d deciding) Serve(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
	l, err := d.Pick(&r.Place, nil, 1, time.Now())
	if err != nil {
		return proxy.Result{}, err
	}
	defer l.Release()
	d.Count(&r.Place, l)
	if err := a.Begin(&proxy.Reply{Status: 200, Lease: l}); err != nil {
		return proxy.Result{}, err
	}
	_, err = fmt.Fprintf(a, "%x %d", r.Place.Pin(), r.Place.Hot())
	a.End(nil, nil)
	return proxy.Result{Status: 200}, err
}
