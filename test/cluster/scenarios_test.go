package cluster

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// 10,000 POST requests whose answer, a stream, comes at once: none is cut.
func TestFastStreamsAreWhole(t *testing.T) {
	const events = 20
	total := scaled(10_000)
	cfg := Config(backendAt("a", instant(t, events)), backendAt("b", instant(t, events)))
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	want := strings.Repeat("data: x\n\n", events)
	var next, bad atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		body := ask("", strings.Repeat(fmt.Sprint("worker ", w), 500))
		wg.Go(func() {
			for next.Add(1) <= int64(total) {
				if _, text, err := post(t.Context(), c, r.URL, body); err != nil || text != want {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := bad.Load(); n != 0 {
		t.Errorf("%d of %d streams were cut", n, total)
	}
}

// Scenario 1, through the whole router: clients that leave at any moment leave
// nothing behind, neither here nor in the servers.
func TestAbortsLeaveNothing(t *testing.T) {
	running, backends := servers(t, 3)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	total := scaled(3_000)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(total) {
					return
				}
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(i%40)*100*time.Microsecond)
				body := chat(i%2 == 0, message{"user", strings.Repeat(fmt.Sprint(i%50, " "), 300)})
				_, _, _ = post(ctx, c, r.URL, body)
				leave()
			}
		})
	}
	wg.Wait()
	eventually(t, "counts at zero", func() bool {
		for _, b := range r.backends(t, c) {
			if b.InFlight != 0 || b.Prefill != 0 {
				return false
			}
		}
		for _, s := range running {
			if st := s.Server.Stats(); st.Running != 0 || st.Waiting != 0 {
				return false
			}
		}
		return true
	})
	for _, b := range r.backends(t, c) {
		if b.Failures != 0 || b.EjectedUntil != nil {
			t.Errorf("%s is blamed for clients that left: %+v", b.ID, b)
		}
	}
}

// Scenario 3: a burst of long prompts spreads from the moment of choice.
func TestBurstSpreads(t *testing.T) {
	running, backends := servers(t, 4)
	for _, s := range running {
		setFault(t, s, modelserver.Fault{Kind: modelserver.Hang})
	}
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 200 {
		body := ask("the same system prompt", strings.Repeat(fmt.Sprint("question ", i, " "), 1000))
		wg.Go(func() { _, _, _ = post(ctx, c, r.URL, body) })
	}
	var counts []int
	eventually(t, "200 requests in flight", func() bool {
		counts = counts[:0]
		sum := 0
		for _, b := range r.backends(t, c) {
			counts = append(counts, b.InFlight)
			sum += b.InFlight
		}
		return sum == 200
	})
	if slices.Max(counts) > 100 || slices.Min(counts) < 20 {
		t.Errorf("in flight by server: %v", counts)
	}
	leave()
	wg.Wait()
}

// Scenario 21: a server that vanishes costs no request, and new ones avoid it
// at once.
func TestServerVanishes(t *testing.T) {
	running, backends := servers(t, 3)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	stop := make(chan struct{})
	var served, failed, onDead atomic.Int64
	var deadSince atomic.Int64 // unix nanoseconds
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				begun := time.Now()
				resp, text, err := post(t.Context(), c, r.URL, ask(fmt.Sprint("tenant ", w, i%16), "q"))
				if err != nil || resp.StatusCode != http.StatusOK {
					failed.Add(1)
					t.Errorf("%v: %s", err, text)
					return
				}
				served.Add(1)
				since := deadSince.Load()
				if since != 0 && begun.UnixNano()-since > int64(100*time.Millisecond) && resp.Header.Get("X-Warmring-Backend") == "gpu-0" {
					onDead.Add(1)
				}
			}
		})
	}
	eventually(t, "traffic", func() bool { return served.Load() > 200 })
	running[0].Stop()
	deadSince.Store(time.Now().UnixNano())
	mark := served.Load()
	eventually(t, "traffic without it", func() bool { return served.Load() > mark+300 })
	close(stop)
	wg.Wait()
	if failed.Load() != 0 || onDead.Load() != 0 {
		t.Errorf("%d requests failed, %d were answered by the server that is gone", failed.Load(), onDead.Load())
	}
}

// Scenario 22: the same name at a new address is a new server. Nothing more is
// sent to the old address, and no request fails.
func TestServerMoves(t *testing.T) {
	running, backends := servers(t, 1)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	for range 5 {
		backendOf(t, c, r.URL, ask("s", "q"))
	}
	before := running[0].Server.Stats().Started
	moved := mstest.Start(t, fast())
	cfg.Backends = []node.BackendConfig{backendAt("gpu-0", moved.URL)}
	if err := r.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is ready at its new address", func() bool { return r.Epoch().Backends()[0].State == routing.Active })
	for range 5 {
		backendOf(t, c, r.URL, ask("s", "q"))
	}
	if n := running[0].Server.Stats().Started; n != before {
		t.Errorf("the old address got %d more requests", n-before)
	}
	if n := moved.Server.Stats().Started; n != 5 {
		t.Errorf("the new address got %d requests; want 5", n)
	}
}

// Scenarios 27 and 32: a server whose health is fine and that never makes a
// token is left out, and its request is answered elsewhere.
func TestWedgedServerIsEjectedByProgress(t *testing.T) {
	running, backends := servers(t, 3)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	cfg.Proxy.Timeouts.FirstByte = time.Second
	r := Start(t, cfg)
	c := client(t)
	body := ask("system", "question")
	home := backendOf(t, c, r.URL, body)
	wedged := running[slices.IndexFunc(backends, func(b node.BackendConfig) bool { return b.ID == home })]
	setFault(t, wedged, modelserver.Fault{Kind: modelserver.Wedged})
	if status(t, c, wedged.URL+"/health") != http.StatusOK {
		t.Error("a wedged server says that it is healthy")
	}
	for i := range 20 {
		begun := time.Now()
		if got := backendOf(t, c, r.URL, body); got == home {
			t.Fatalf("request %d was answered by the wedged server", i)
		}
		if took := time.Since(begun); i > 0 && took > 900*time.Millisecond {
			t.Errorf("request %d took %v; only the first may wait for the limit", i, took)
		}
	}
}

// Scenario 33: servers close connections that were idle; no request fails.
func TestIdleConnectionsClosedByServer(t *testing.T) {
	running, backends := servers(t, 1)
	setFault(t, running[0], modelserver.Fault{Kind: modelserver.Idle, Delay: 5 * time.Millisecond})
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range scaled(300) {
		backendOf(t, c, r.URL, ask("s", "q"))
		// Around the moment at which the server closes.
		<-time.After(4500*time.Microsecond + time.Duration(rng.IntN(1000))*time.Microsecond)
	}
}

// Scenario 38: 429 with Retry-After moves load away, and ejects nobody.
func TestBusyServerIsRelieved(t *testing.T) {
	running, backends := servers(t, 2)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	body := ask("system", "question")
	home := backendOf(t, c, r.URL, body)
	i := slices.IndexFunc(backends, func(b node.BackendConfig) bool { return b.ID == home })
	setFault(t, running[i], modelserver.Fault{Kind: modelserver.Status, Status: 429, RetryAfter: 30, Times: 1})
	for range 10 {
		if got := backendOf(t, c, r.URL, body); got == home {
			t.Fatal("the request went to the server that asked for less")
		}
	}
	for _, b := range r.backends(t, c) {
		if b.EjectedUntil != nil {
			t.Errorf("%s is ejected", b.ID)
		}
	}
}

// Scenario 42: chats that share a system prompt spread over the servers, and
// each stays on one through all its turns, its prefix cached.
func TestGrowingChatsStay(t *testing.T) {
	_, backends := servers(t, 4)
	cfg := Config(backends...)
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	system := message{"system", strings.Repeat("You are a helpful assistant. ", 20)}
	homes := map[string]int{}
	hot := false
	for i := 0; !hot; i++ { // the system prompt, within some periods of the hot table
		backendOf(t, c, r.URL, chat(false, system, message{"user", fmt.Sprint("hello ", i)}))
		table := r.Epoch().Hot()
		hot = table != nil && len(table.Runs) > 0
	}
	for chatNumber := range 24 {
		history := []message{system}
		var where string
		for turn := range 6 {
			history = append(history, message{"user", fmt.Sprintf("chat %d, turn %d: %s", chatNumber, turn, strings.Repeat("and so on ", 20))})
			got := backendOf(t, c, r.URL, chat(false, history...))
			if turn > 0 && got != where {
				t.Errorf("chat %d moved from %s to %s at turn %d", chatNumber, where, got, turn)
			}
			where = got
			history = append(history, message{"assistant", "an answer"})
		}
		homes[where]++
	}
	if len(homes) != 4 {
		t.Errorf("24 chats with one system prompt live on %v", homes)
	}
}

// Scenario 46: prompts made to be all different leave no memory behind.
func TestUniquePromptsLeaveNoMemory(t *testing.T) {
	cfg := Config(backendAt("a", instant(t, 1)))
	cfg.Endpoints = []node.EndpointConfig{auto()}
	r := Start(t, cfg)
	c := client(t)
	burst := func(n, from int) {
		for i := range n {
			req := ask(fmt.Sprint("tenant ", from+i), strings.Repeat(fmt.Sprint(from+i, " "), 200))
			if _, text, err := post(t.Context(), c, r.URL, req); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
	}
	burst(500, 0)
	before := heap()
	burst(scaled(4000), 500)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
}

// The strategies, as seen from outside.
func TestStrategies(t *testing.T) {
	for _, p := range []node.RoutingConfig{
		{Strategy: routing.Random},
		{Strategy: routing.LeastOutstandingRequests},
		{Strategy: routing.PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 8},
		{Strategy: routing.PrefixAware},
	} {
		t.Run(fmt.Sprint(p.Strategy, p.PrefixLength), func(t *testing.T) {
			_, backends := servers(t, 4)
			cfg := Config(backends...)
			cfg.Endpoints = []node.EndpointConfig{endpoint(p)}
			r := Start(t, cfg)
			c := client(t)
			seen := map[string]int{}
			for range 60 {
				seen[backendOf(t, c, r.URL, ask("one system prompt", "one question"))]++
			}
			switch {
			case p.Strategy == routing.PrefixAware && len(seen) != 1:
				t.Errorf("equal requests, one after another, went to %v", seen)
			case p.Strategy != routing.PrefixAware && len(seen) != 4:
				t.Errorf("60 requests went to %v; want all four", seen)
			}
		})
	}
}

func setFault(t *testing.T, s *mstest.Running, f modelserver.Fault) {
	t.Helper()
	if err := s.Server.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// heap is the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
