package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/hot"
	"github.com/warmring/warmring/routing/proxy"
)

// draw makes bodies of requests as they are seldom written by hand.
type draw struct{ *rapid.T }

func (d draw) upTo(n int, what string) int { return rapid.IntRange(0, n).Draw(d.T, what) }

func (d draw) oneOf(from ...string) string { return rapid.SampledFrom(from).Draw(d.T, "one of") }

// object has its keys in any order, and now and then one of them twice.
func (d draw) object(members ...string) string {
	members = rapid.Permutation(members).Draw(d.T, "order")
	if d.upTo(15, "twice") == 0 {
		members = append(members, members[0])
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (d draw) text() string {
	char := d.oneOf("a", "word ", "é", "前", "😀", `\"`, `\u00e9`, `\ud83d\ude00`, `\n`)
	n := rapid.SampledFrom([]int{0, 1, 10, 255, 256, 257, 1024, 4000, 4096, 20_000}).Draw(d.T, "length")
	return `"` + strings.Repeat(char, n) + d.oneOf("", "x", "y") + `"`
}

func (d draw) content() string {
	if d.upTo(3, "parts") > 0 {
		return d.oneOf(d.text(), d.text(), "null")
	}
	image := d.oneOf(d.text(), `"data:image/png;base64,`+picture(20_000)+`"`)
	return "[" + d.object(`"type":"text"`, `"text":`+d.text()) + "," +
		d.oneOf(d.object(`"type":"image_url"`, `"image_url":{"url":`+image+"}"), d.object(`"type":"tool_result"`, `"content":`+d.text())) + "]"
}

func (d draw) messages() string {
	var all []string
	for range d.upTo(4, "messages") {
		m := []string{`"role":` + d.oneOf(`"user"`, `"system"`, `"assistant"`, `"us\u0065r"`), `"content":` + d.content()}
		if d.upTo(3, "more keys") == 0 {
			m = append(m, d.oneOf(`"tool_calls":[{"id":`+d.text()+`}]`, `"name":`+d.text(), `"a":1`))
		}
		one := d.oneOf(d.object(m...), d.object(m...), `{"a":1}`)
		for range min(rapid.SampledFrom([]int{1, 1, 1, 20, 600}).Draw(d.T, "times"), 1+100_000/len(one)) {
			all = append(all, one)
		}
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (d draw) prompts() string {
	ids := strings.Repeat("12,", rapid.SampledFrom([]int{0, 1000, 3000}).Draw(d.T, "ids")) + "7"
	return d.oneOf(d.text(), "["+d.text()+","+d.text()+"]", "["+ids+"]", "[[1],["+ids+"]]")
}

// body is one for the route with that kind.
func (d draw) body(kind string) string {
	members := []string{`"model":` + d.oneOf(`"llama"`, `"llama"`, `"llama-lora"`, `"several"`, `"fixed"`)}
	switch kind {
	case "chat/completions", "messages":
		members = append(members, `"messages":`+d.messages(), d.oneOf(`"n":1`, `"system":`+d.content(), `"tools":[{"a":`+d.text()+`}]`))
	case "completions":
		members = append(members, `"prompt":`+d.prompts())
	case "responses":
		members = append(members, `"input":`+d.oneOf(d.text(), d.messages()), `"instructions":`+d.text())
	case "embeddings":
		members = append(members, `"input":`+d.prompts())
	case "rerank":
		members = append(members, `"query":`+d.text(), `"documents":[`+d.text()+`,{"text":`+d.text()+"}]")
	case "score":
		members = append(members, `"text_1":`+d.text(), `"text_2":[`+d.text()+"]")
	default:
		return d.text()
	}
	return d.object(append(members, d.oneOf(`"stream":false`, `"prompt_cache_key":"t"`, `"metadata":`+d.text()))...)
}

// forms has an endpoint for each way in which a place is found.
func forms(t *testing.T) *routing.Epoch {
	t.Helper()
	auto, random := routing.Policy{Strategy: routing.PrefixAware}, routing.Policy{Strategy: routing.Random}
	fixed := func(n int) routing.Policy { return routing.Policy{Strategy: routing.PrefixAware, PrefixLength: n} }
	var c routing.Change
	for name, policies := range map[string][]routing.Policy{"llama": {auto}, "several": {auto, fixed(2048), random, fixed(65536)}, "fixed": {fixed(1024)}} {
		ep := routing.Endpoint{Name: name, Adapters: []string{name + "-lora"}}
		for i, p := range policies {
			v := fmt.Sprint("v", i)
			ep.Variants = append(ep.Variants, routing.Variant{Name: v, Weight: 1, Policy: p})
			for j := range 4 {
				c.PutBackends = append(c.PutBackends, routing.Backend{
					ID: fmt.Sprint(name, v, j), URL: fmt.Sprintf("http://127.0.0.1:%d", len(c.PutBackends)+1), Endpoint: name, Variant: v, Weight: 1, State: routing.Active,
				})
			}
		}
		c.PutEndpoints = append(c.PutEndpoints, ep)
	}
	e, err := routing.NewEpoch(1, 42).Apply(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// placing keeps the place of a request.
type placing struct {
	*routing.Picker
	place routing.Place
}

func (p *placing) Serve(_ context.Context, r *proxy.Request, a proxy.Answer) (proxy.Result, error) {
	l, err := p.Pick(&r.Place, nil, 1, time.Now())
	if err != nil {
		return proxy.Result{}, err
	}
	defer l.Release()
	p.Count(&r.Place, l)
	p.place = r.Place
	err = a.Begin(&proxy.Reply{Status: 200, Lease: l})
	a.End(nil, nil)
	return proxy.Result{Status: 200}, err
}

// describe is all of a place that a router acts by.
func describe(pl *routing.Place) string {
	return fmt.Sprintf("%s %s %x, hot %d of %d tokens, %v", pl.Endpoint(), pl.Variant(), pl.Pin(), pl.Hot(), pl.Tokens(), pl.Ranking())
}

// A body has one place, whether its request is counted or not, in whatever pieces it arrives, also where it is larger than the
// scan window; and it is the one that Explain shows.
func TestABodyHasOnePlace(t *testing.T) {
	epoch := forms(t)
	kinds := []string{"chat/completions", "completions", "responses", "embeddings", "rerank", "score", "messages", "invocations"}
	rapid.Check(t, func(rt *rapid.T) {
		d := draw{rt}
		p, counted := &placing{Picker: routing.NewPicker(routing.PickerConfig{})}, false
		p.SetEpoch(epoch)
		cfg := Default()
		cfg.Limits.ScanWindow = rapid.SampledFrom([]Bytes{4 * KiB, 64 * KiB, MiB}).Draw(rt, "window")
		var log lockedBuffer
		a, err := New(cfg, Deps{Epoch: p.Epoch, Log: slog.New(slog.NewTextHandler(&log, nil)), Counts: func(uint64) bool { return counted }, Proxy: p})
		if err != nil {
			rt.Fatal(err)
		}
		send := func(kind string, body io.Reader, size int) string {
			path := "/v1/" + kind
			if kind == "invocations" {
				path = "/endpoints/llama/invocations"
			}
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, body)
			r.ContentLength = int64(size)
			a.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				return fmt.Sprintf("%d %s %s", w.Code, w.Body, &log)
			}
			return describe(&p.place)
		}
		check := func(kind, body string) {
			counted = false
			got := send(kind, &trickle{body, rapid.SampledFrom([]int{100, 1000, 5000, 1 << 20}).Draw(rt, "piece")}, len(body))
			counted = true
			want := send(kind, strings.NewReader(body), len(body))
			endpoint := ""
			if kind == "invocations" {
				endpoint = "llama"
			}
			explained, err := Explain(p.Epoch(), int(cfg.Limits.ScanWindow), kind, endpoint, http.Header{}, []byte(body))
			if err != nil {
				rt.Fatal(err)
			}
			if shown := describe(&explained.Place); got != want || got != shown {
				rt.Fatalf("%s of %d bytes, window %v: %.300s\nuncounted, in pieces %s\ncounted              %s\nexplained            %s",
					kind, len(body), cfg.Limits.ScanWindow, body, got, want, shown)
			}
		}
		for range 3 { // the first without a table
			kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
			body := d.body(kind)
			check(kind, body)
			for range 12 {
				send(kind, strings.NewReader(body), len(body))
			}
			made := hot.Make(nil, []hot.Report{p.Sketch().Report(1.5, 1000)}, hot.Config{Servers: 4})
			next, err := p.Epoch().Apply(routing.Change{Hot: &routing.HotTable{Runs: made.Runs}})
			if err != nil {
				rt.Fatal(err)
			}
			p.SetEpoch(next)
			check(kind, body)
			check(kind, strings.Replace(body, `y"`, `z"`, 1))
		}
	})
}
