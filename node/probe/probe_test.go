package probe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/gossip/loads"
)

// pipes is a network without one: each address is a handler.
type pipes struct {
	mu       sync.Mutex // guards handlers
	handlers map[string]http.Handler
	open     atomic.Int64
	dials    atomic.Int64
}

// oneConn is a listener of a single connection.
type oneConn struct {
	net.Conn
	ready chan net.Conn
	done  chan struct{}
	once  func()
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { l.once(); return nil }
func (l *oneConn) Addr() net.Addr { return l.LocalAddr() }

func (p *pipes) set(address string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h == nil {
		delete(p.handlers, address)
		return
	}
	p.handlers[address] = h
}

func (p *pipes) dial(_ context.Context, _, address string) (net.Conn, error) {
	p.dials.Add(1)
	p.mu.Lock()
	h := p.handlers[address]
	p.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("%s refuses", address)
	}
	ours, theirs := net.Pipe()
	l := &oneConn{Conn: theirs, ready: make(chan net.Conn, 1), done: make(chan struct{})}
	l.once = sync.OnceFunc(func() { close(l.done) })
	l.ready <- theirs
	p.open.Add(1)
	srv := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			p.open.Add(-1)
			_ = l.Close()
		}
	}}
	go func() { _ = srv.Serve(l) }()
	return ours, nil
}

// bench is a prober in a bubble and what it said.
type bench struct {
	t *testing.T // of the bubble
	*pipes
	*Prober
	mu         sync.Mutex // guards what follows, but stop
	said       []string   // "id verdict", as told
	capacities []string   // "id@incarnation tokens", as told
	last       time.Time
	stop       func()
}

func inBubble(t *testing.T, cfg Config, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, pipes: &pipes{handlers: map[string]http.Handler{}}}
		b.Prober = New(cfg, Deps{
			Dial: b.dial, Log: slog.New(slog.DiscardHandler),
			OnVerdict: func(k loads.Key, v loads.Probe) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.said, b.last = append(b.said, k.ID+" "+name(v)), time.Now()
			},
			OnCache: func(k loads.Key, c Cache) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.capacities = append(b.capacities, fmt.Sprintf("%s@%d %d", k.ID, k.Incarnation, c.Tokens))
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		b.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		f(b)
		b.stop()
		time.Sleep(time.Second) // for handlers that the servers still run
		synctest.Wait()
		if n := b.open.Load(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

func (b *bench) want(t *testing.T, said ...string) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, want := strings.Join(b.said, ", "), strings.Join(said, ", "); got != want {
		t.Errorf("said %s; want %s", got, want)
	}
	b.said = nil
}

func target(id string, models ...string) Target {
	return Target{ID: id, Incarnation: 1, URL: "http://" + id + ":80", Models: models}
}

// answers serves the given paths, and 404 for all others.
func answers(paths map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := paths[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

const listsChat = `{"object":"list","data":[{"id":"other"},{"id":"chat"}]}`

// What answers at once is judged by the first probe.
func TestFirstProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		kind Kind
		h    http.HandlerFunc
		want string // empty: not ready
	}{
		"health":                {Auto, answers(map[string]string{"/health": ""}), "ready"},
		"ping":                  {Auto, answers(map[string]string{"/ping": ""}), "ready"},
		"models only":           {Auto, answers(map[string]string{"/v1/models": listsChat}), "ready"},
		"nothing":               {Auto, answers(nil), ""},
		"health and models":     {Auto, answers(map[string]string{"/health": "", "/v1/models": listsChat}), "ready"},
		"another model":         {Auto, answers(map[string]string{"/health": "", "/v1/models": `{"data":[{"id":"x"}]}`}), ""},
		"no model yet":          {Auto, answers(map[string]string{"/health": "", "/v1/models": `{"data":[]}`}), ""},
		"no list":               {Auto, answers(map[string]string{"/health": "", "/v1/models": `<html>`}), "ready"},
		"endless list":          {Auto, answers(map[string]string{"/health": "", "/v1/models": `{"data":[` + strings.Repeat(" ", 2<<20) + `]}`}), "ready"},
		"a key is asked for":    {Auto, status(401), "ready"},
		"error":                 {Auto, status(500), ""},
		"redirect":              {Auto, status(302, "Location", "http://a:80/other"), ""},
		"busy":                  {Auto, status(503, "Retry-After", "1"), ""},
		"only ping is asked":    {Ping, answers(map[string]string{"/health": ""}), ""},
		"only ping is needed":   {Ping, answers(map[string]string{"/ping": "", "/v1/models": `{"data":[]}`}), "ready"},
		"only health is needed": {Health, answers(map[string]string{"/health": "", "/v1/models": `{"data":[]}`}), "ready"},
		"only models are asked": {Models, answers(map[string]string{"/v1/models": `{"data":[]}`}), ""},
		"nobody is asked":       {Never, nil, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			cfg.Kind = tt.kind
			inBubble(t, cfg, func(b *bench) {
				t := b.t
				b.set("a:80", tt.h)
				b.Watch([]Target{target("a", "chat", "chat-alias")})
				synctest.Wait()
				if tt.want == "" {
					b.want(t)
				} else {
					b.want(t, "a "+tt.want)
				}
			})
		})
	}
}

// A server that is not ready is found ready within a second (scenario 24), one that died within three probes.
func TestReadyAtOnceAndDead(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.Watch([]Target{target("a", "chat")})
		time.Sleep(time.Minute)
		b.want(t, "a dead")
		b.set("a:80", answers(map[string]string{"/health": "", "/v1/models": listsChat}))
		born := time.Now()
		time.Sleep(5 * time.Second)
		b.want(t, "a ready")
		if d := b.last.Sub(born); d > 900*time.Millisecond {
			t.Errorf("ready after %s", d)
		}
		b.set("a:80", nil)
		died := time.Now()
		time.Sleep(10 * time.Second)
		b.want(t, "a unknown", "a dead")
		if d := b.last.Sub(died); d > 4*time.Second {
			t.Errorf("dead after %s", d)
		}
	})
}

func TestSlowAnswersFail(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b.Watch([]Target{target("a")})
		time.Sleep(5 * time.Second)
		b.want(t)
		time.Sleep(5 * time.Second)
		b.want(t, "a dead")
	})
}

// Load is not health: a server that asks for less stays what it was.
func TestBusyKeepsTheVerdict(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", status(200))
		b.Watch([]Target{target("a")})
		b.want(t, "a ready")
		b.set("a:80", status(429))
		time.Sleep(time.Minute)
		b.set("a:80", status(503, "Retry-After", "5"))
		time.Sleep(time.Minute)
		b.want(t)
		b.set("a:80", status(503))
		time.Sleep(time.Minute)
		b.want(t, "a unknown", "a dead")
		b.set("a:80", status(429))
		time.Sleep(time.Minute)
		b.want(t, "a unknown")
	})
}

// An engine that has work and makes no tokens is dead, whatever its health says (scenario 27).
func TestProgress(t *testing.T) {
	var running, tokens atomic.Int64
	metrics := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = fmt.Fprintf(w, "vllm:num_requests_running{model_name=\"a\"} %d\nvllm:num_requests_waiting{model_name=\"a\"} 0\n"+
				"vllm:generation_tokens_total{model_name=\"a\"} %d\n", running.Load(), tokens.Load())
		}
	}
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", metrics)
		b.Watch([]Target{target("a")})
		time.Sleep(5 * time.Minute) // idle
		b.want(t, "a ready")
		running.Store(3)
		for range 60 {
			tokens.Add(1)
			time.Sleep(5 * time.Second)
		}
		b.want(t)
		last := time.Now().Add(-5 * time.Second) // token
		time.Sleep(time.Minute)
		b.want(t, "a dead")
		if d := b.last.Sub(last); d < 20*time.Second || d > 35*time.Second {
			t.Errorf("dead after %s", d)
		}
		tokens.Add(1)
		time.Sleep(10 * time.Second)
		b.want(t, "a ready")
		time.Sleep(time.Minute)
		b.want(t, "a dead")
		running.Store(0) // its work was taken away, which shows nothing
		time.Sleep(50 * time.Second)
		b.want(t)
		time.Sleep(20 * time.Second)
		b.want(t, "a ready")
	})
}

// Watch replaces the targets: who is gone is asked no more, and its verdict is taken back.
func TestWatchReplaces(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		var asked atomic.Int64
		b.set("a:80", func(http.ResponseWriter, *http.Request) { asked.Add(1) })
		b.set("b:80", answers(map[string]string{"/health": "", "/v1/models": listsChat}))
		b.Watch([]Target{target("a"), target("b", "none")})
		time.Sleep(time.Second)
		b.want(t, "a ready")
		b.Watch([]Target{target("b", "none", "chat")})
		time.Sleep(2 * time.Second)
		b.want(t, "a unknown", "b ready")
		before := asked.Load()
		time.Sleep(time.Minute)
		if n := asked.Load() - before; n != 0 {
			t.Errorf("a is asked %d times more", n)
		}
		later := target("b", "chat")
		later.Incarnation++
		b.Watch([]Target{later})
		b.want(t, "b unknown", "b ready")
		b.Watch(nil)
		b.want(t, "b unknown")
	})
}

// Backends found together are asked at once, and then spread over the interval; no more than 64 at a time.
func TestSpread(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		var now, most atomic.Int64
		var targets []Target
		var at sync.Map
		for i := range 200 {
			id := fmt.Sprintf("b%d", i)
			b.set(id+":80", func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/health" {
					return
				}
				at.Store(id, time.Now())
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(10 * time.Millisecond)
				now.Add(-1)
			})
			targets = append(targets, target(id))
		}
		b.Watch(targets)
		time.Sleep(time.Second)
		b.mu.Lock()
		if len(b.said) != 200 {
			t.Errorf("%d are ready after a second", len(b.said))
		}
		b.mu.Unlock()
		if most.Load() > crowd {
			t.Errorf("%d at once", most.Load())
		}
		time.Sleep(20 * time.Second)
		buckets := map[time.Duration]int{}
		at.Range(func(_, v any) bool {
			buckets[time.Since(v.(time.Time)).Truncate(250*time.Millisecond)]++
			return true
		})
		for age, n := range buckets {
			if n > 75 {
				t.Errorf("%d were asked %s ago", n, age)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Kind: "x", Interval: 1, Stall: -1}.Validate()
	for _, path := range []string{"health.kind: ", "health.interval: ", "health.timeout: ", "health.stall: "} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v lacks %s", err, path)
		}
	}
}
