package probe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// wantCapacities compares what was told since the last call.
func (b *bench) wantCapacities(t *testing.T, told ...string) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, want := strings.Join(b.capacities, ", "), strings.Join(told, ", "); got != want {
		t.Errorf("told %s; want %s", got, want)
	}
	b.capacities = nil
}

func holds(tokens int) http.HandlerFunc {
	return answers(map[string]string{"/metrics": fmt.Sprintf("%s{dp_rank=\"0\"} %d\n", sglangCache, tokens)})
}

func TestScrape(t *testing.T) {
	for name, tt := range map[string]struct {
		h              http.HandlerFunc
		want           string
		answered, fail uint64
	}{
		"known":           {holds(7), "a@1 7", 1, 0},
		"no such metric":  {answers(map[string]string{"/metrics": "up 1\n"}), "a@1 0", 1, 0},
		"no metrics":      {answers(nil), "a@1 0", 1, 0},
		"not implemented": {status(501), "a@1 0", 1, 0},
		"busy":            {status(503, "Retry-After", "1"), "", 0, 1},
		"error":           {status(500), "", 0, 1},
		"redirect":        {status(302, "Location", "http://a:80/other"), "", 0, 1},
		"refused":         {nil, "", 0, 1},
		"slow":            {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "", 0, 1},
		"slow in the middle": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("up 1\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "", 0, 1},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte("up 1\n")); err != nil {
					return
				}
			}
		}, "a@1 0", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Default(), func(b *bench) {
				b.set("a:80", tt.h)
				b.SetBackends([]Target{target("a")})
				time.Sleep(4 * time.Second)
				if tt.want == "" {
					b.wantCapacities(b.t)
				} else {
					b.wantCapacities(b.t, tt.want)
				}
				if answered, failed := b.Scrapes(); answered != tt.answered || failed != tt.fail {
					b.t.Errorf("%d answered, %d failed", answered, failed)
				}
				b.want(b.t) // and nothing is said of health
			})
		})
	}
}

// A backend that answered is asked again after a minute, or a tenth more; one that did not soon, and then ever less often.
func TestScrapeAgain(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", holds(7))
		b.SetBackends([]Target{target("a")})
		b.wantCapacities(t, "a@1 7")
		b.set("a:80", holds(8))
		time.Sleep(50 * time.Second)
		b.wantCapacities(t)
		time.Sleep(17 * time.Second)
		b.wantCapacities(t, "a@1 8")
		b.set("a:80", nil)
		time.Sleep(66 * time.Second) // it failed up to three times: the next time is within 22 s
		b.wantCapacities(t)
		b.set("a:80", holds(9))
		time.Sleep(23 * time.Second)
		b.wantCapacities(t, "a@1 9")
	})
	inBubble(t, Default(), func(b *bench) {
		b.SetBackends([]Target{target("a")})
		time.Sleep(10 * time.Minute)
		if _, failed := b.Scrapes(); failed < 12 || failed > 16 { // 5 s, 10 s, 20 s, 40 s, and then every minute
			b.t.Errorf("%d failures in 10 minutes", failed)
		}
	})
}

// SetBackends replaces the backends: who stays is not asked more often, who moved or came back is asked at once.
func TestSetBackends(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", holds(1))
		b.set("b:80", holds(2))
		b.SetBackends([]Target{target("a")})
		b.wantCapacities(t, "a@1 1")
		for range 20 {
			time.Sleep(time.Second)
			b.SetBackends([]Target{target("a")})
		}
		b.wantCapacities(t)
		again, moved := target("a"), target("a")
		again.Incarnation = 2
		b.SetBackends([]Target{again})
		b.wantCapacities(t, "a@2 1")
		moved.Incarnation, moved.URL = 2, target("b").URL
		b.SetBackends([]Target{moved})
		b.wantCapacities(t, "a@2 2")
		b.SetBackends(nil)
		time.Sleep(10 * time.Minute)
		b.wantCapacities(t)
	})
}

// One that is watched and answers after it did not may have been restarted: it is asked at once, once.
func TestScrapeAfterFailure(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		b.set("a:80", holds(7))
		b.Watch([]Target{target("a")})
		b.SetBackends([]Target{target("a")})
		b.wantCapacities(t, "a@1 7")
		b.set("a:80", nil)
		time.Sleep(3 * time.Second)
		b.wantCapacities(t)
		b.set("a:80", answers(map[string]string{"/health": "", "/metrics": sglangCache + " 8\n"}))
		time.Sleep(time.Second)
		b.wantCapacities(t, "a@1 8")
		time.Sleep(50 * time.Second)
		b.wantCapacities(t)
		b.SetBackends(nil)
		b.set("a:80", nil)
		time.Sleep(3 * time.Second)
		b.set("a:80", holds(9))
		time.Sleep(10 * time.Second)
		b.wantCapacities(t) // nobody wants to know
	})
}

func TestNobodyIsScraped(t *testing.T) {
	cfg := Default()
	cfg.Kind = Never
	inBubble(t, cfg, func(b *bench) {
		b.SetBackends([]Target{target("a")})
		time.Sleep(time.Minute)
		if n := b.dials.Load(); n != 0 {
			b.t.Errorf("%d dials", n)
		}
	})
	New(Default(), Deps{}).SetBackends([]Target{target("a")}) // nobody wants to hear
}

// Backends that hang hold up neither the probes nor the end, and only some are asked at once.
func TestScrapesLeaveProbesAlone(t *testing.T) {
	inBubble(t, Default(), func(b *bench) {
		t := b.t
		var now, most atomic.Int64
		var targets []Target
		for i := range 100 {
			id := fmt.Sprintf("b%d", i)
			targets = append(targets, target(id))
			b.set(id+":80", func(_ http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), now.Add(1)))
				<-r.Context().Done()
				now.Add(-1)
			})
		}
		b.SetBackends(targets)
		synctest.Wait()
		if most.Load() != scrapers {
			t.Errorf("%d at once", most.Load())
		}
		b.set("a:80", status(200))
		b.Watch([]Target{target("a")})
		b.want(t, "a ready")
		began := time.Now()
		b.stop()
		if d := time.Since(began); d != 0 {
			t.Errorf("the end took %s", d)
		}
	})
}
