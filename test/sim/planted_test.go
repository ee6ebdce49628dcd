package sim

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// failures runs a scenario that must fail and returns what was said.
func failures(t *testing.T, f func(*World)) string {
	t.Helper()
	var mu sync.Mutex
	var said []string
	o := Options{Seeds: 1, hooks: &hooks{failed: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}}}
	o.run(t, 1, newTable(), f)
	return strings.Join(said, "\n")
}

// Faults that are planted must be found, or the harness proves nothing.
func TestPlantedFaultsAreFound(t *testing.T) {
	epoch := func(number, digest uint64) State {
		return State{Router: "n00", Generation: 1, Number: number, Digest: digest}
	}
	other := func(s State) State { s.Router = "n01"; return s }
	for name, tt := range map[string]struct {
		says string
		f    func(*World)
	}{
		"two values for an epoch": {"two values for epoch 1.7", watching(
			[]State{epoch(7, 1), other(epoch(6, 2))},
			[]State{epoch(8, 3), other(epoch(7, 2))},
		)},
		"an epoch that falls": {"n00 went back from epoch 1.7 to 1.6", watching(
			[]State{epoch(7, 1)}, []State{epoch(6, 2)},
		)},
		"two leaders": {"two leaders in term 4: n00 and n01", watching(
			[]State{{Router: "n00", Role: "leader", Term: 4}},
			[]State{{Router: "n00", Role: "leader", Term: 3}, {Router: "n01", Role: "leader", Term: 4}},
		)},
		"a lost release": {"requests in flight is 1 with nothing to do", func(w *World) {
			var flight leaky
			w.Idle("requests in flight", flight.read)
			for i := range 10 {
				flight.use(i != 5)
			}
		}},
		"a release too many": {"requests in flight is -1", func(w *World) {
			var flight leaky
			w.Idle("requests in flight", flight.read)
			flight.add(-1)
			time.Sleep(time.Second)
			flight.add(1)
		}},
		"a model server that keeps a sequence": {"m00's sequences is 1", func(w *World) {
			m := w.Models(1)[0]
			go post(w, m.URL()+"/v1/completions", `{"prompt":"x","max_tokens":6000}`)
			time.Sleep(time.Second)
		}},
		"a process that ends by itself": {"p ended by itself: unexpected EOF", func(w *World) {
			w.Start("p", func(*simnet.Host, io.Writer) (func(context.Context) error, error) {
				return func(context.Context) error { return io.ErrUnexpectedEOF }, nil
			})
			time.Sleep(time.Second)
		}},
		"a process that does not stop": {"p does not stop within 1m0s", func(w *World) {
			w.Start("p", func(*simnet.Host, io.Writer) (func(context.Context) error, error) {
				return func(context.Context) error { time.Sleep(70 * time.Second); return nil }, nil
			})
		}},
		"too late": {"not within 3s: never", func(w *World) {
			w.Soon("never", 3*time.Second, func() bool { return false })
			w.Errorf("not reached")
		}},
		"lost requests": {"n00 lost requests: 0 ok, 2 refused", func(w *World) {
			r := w.Router(nil)
			w.Soon("ready", 10*time.Second, r.Ready)
			w.Clients([]*Router{r}, Load{Rate: 2, Over: time.Second}).Wait().LostOnly()
		}},
		"no requests": {"there were no requests", func(w *World) {
			w.Clients(nil, Load{Rate: 1, Over: time.Millisecond}).Wait().LostOnly()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if said := failures(t, tt.f); strings.Count(said, tt.says) != 1 && name != "a release too many" || !strings.Contains(said, tt.says) || strings.Contains(said, "not reached") {
				t.Errorf("want %q once, got\n%s", tt.says, said)
			}
		})
	}
}

func TestAHealthyScenarioSaysNothing(t *testing.T) {
	said := failures(t, func(w *World) {
		r := w.Router(w.Models(1))
		w.Always("fine", func() error { return nil })
		w.Soon("ready", 10*time.Second, r.Ready)
		w.Clients([]*Router{r}, Load{Over: 3 * time.Second}).Wait().LostOnly()
	})
	if said != "" {
		t.Error(said)
	}
}

// watching lets the rules of a cluster look at one set of states after the other.
func watching(looks ...[]State) func(*World) {
	return func(w *World) {
		r := newRules()
		w.Always("cluster", func() error {
			if i := int(w.Elapsed() / time.Second); i < len(looks) {
				return r.look(looks[i])
			}
			return nil
		})
		time.Sleep(time.Duration(len(looks)) * time.Second)
	}
}

// leaky counts what is in use.
type leaky struct {
	mu sync.Mutex // guards n
	n  int
}

func (l *leaky) add(d int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += d
}

func (l *leaky) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func (l *leaky) use(release bool) {
	l.add(1)
	time.Sleep(50 * time.Millisecond)
	if release {
		l.add(-1)
	}
}

// A lock that is held while its holder sleeps keeps virtual time from moving; the watchdog names who waits for it.
func TestWatchdogNamesWhoWaitsForALock(t *testing.T) {
	var node struct {
		sync.Mutex
	}
	said := ""
	o := Options{Seeds: 1, Patience: 200 * time.Millisecond, hooks: &hooks{stuck: func(culprits string) {
		said = culprits
		node.Unlock() // so that this test can end
	}}}
	o.run(t, 1, newTable(), func(*World) {
		go holdsALockWhileItSleeps(&node)
		time.Sleep(time.Millisecond)
		node.Lock()
		node.Unlock() //nolint:staticcheck // the lock itself is what is tested
		time.Sleep(2 * time.Second)
	})
	if strings.Count(said, "synctest bubble") != 1 || !strings.Contains(said, "sync.Mutex.Lock") || !strings.Contains(said, "TestWatchdogNamesWhoWaitsForALock") {
		t.Errorf("got:\n%s", said)
	}
}

func holdsALockWhileItSleeps(l sync.Locker) {
	l.Lock()
	time.Sleep(time.Second)
}

// post sends a request and reads the answer until it ends or breaks off.
func post(w *World, url, body string) {
	client := http.Client{Transport: &http.Transport{DialContext: w.Host("somebody").Dial, DisableKeepAlives: true}}
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
