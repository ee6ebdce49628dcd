package sim

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Load is what clients ask for. It is open: requests begin at their times, however long others take.
type Load struct {
	Rate    float64       // requests a second; 0: 10
	Over    time.Duration // how long requests begin; 0: 10 s
	Stream  float64       // share of requests that ask for a stream, 0 to 1
	Tokens  int           // of an answer; 0: 16
	Prompts int           // different prompts; 0: 100
	Size    int           // bytes of a prompt; 0: 200
	Late    time.Duration // a complete answer that takes longer is late; 0: 10 s
	GiveUp  time.Duration // after this a client leaves, and the answer is late too; 0: a minute
}

func (l Load) withDefaults() Load {
	l.Rate = cmp.Or(l.Rate, 10)
	l.Over = cmp.Or(l.Over, 10*time.Second)
	l.Tokens, l.Prompts, l.Size = cmp.Or(l.Tokens, 16), cmp.Or(l.Prompts, 100), cmp.Or(l.Size, 200)
	l.Late, l.GiveUp = cmp.Or(l.Late, 10*time.Second), cmp.Or(l.GiveUp, time.Minute)
	return l
}

// Counts are how requests ended.
type Counts struct {
	OK      int // answered completely and in time
	Refused int // no connection, or an answer other than 200
	Cut     int // the answer began and is not complete, or says that it failed
	Late    int // complete but slow, or given up
}

// Lost is all that did not end well.
func (c Counts) Lost() int { return c.Refused + c.Cut + c.Late }

// add returns the sum.
func (c Counts) add(o Counts) Counts {
	return Counts{c.OK + o.OK, c.Refused + o.Refused, c.Cut + o.Cut, c.Late + o.Late}
}

func (c Counts) String() string {
	return fmt.Sprintf("%d ok, %d refused, %d cut, %d late", c.OK, c.Refused, c.Cut, c.Late)
}

// Traffic is a load on its way.
type Traffic struct {
	w       *World
	load    Load
	client  http.Client
	begun   sync.WaitGroup
	started time.Time

	mu       sync.Mutex        // guards all below
	counts   map[string]Counts // by router
	examples map[string]string // of what went wrong, by router
}

// Clients puts a load on routers, from a host called clients. They go around the routers that run and say they are ready,
// as a load balancer with good health checks sends them.
func (w *World) Clients(routers []*Router, l Load) *Traffic {
	transport := &http.Transport{DialContext: w.Host("clients").Dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	w.AtEnd(transport.CloseIdleConnections)
	t := &Traffic{
		w: w, load: l.withDefaults(), client: http.Client{Transport: transport}, started: time.Now(),
		counts: map[string]Counts{}, examples: map[string]string{},
	}
	requests := int(t.load.Rate * t.load.Over.Seconds())
	t.begun.Add(requests)
	w.background.Go(func() { t.begin(routers, requests) })
	return t
}

// begin starts the requests, one after the other.
func (t *Traffic) begin(routers []*Router, requests int) {
	every := time.Duration(float64(time.Second) / t.load.Rate)
	for i := range requests {
		if !sleep(t.w.ctx, time.Until(t.started.Add(time.Duration(i)*every))) {
			t.begun.Add(i - requests)
			return
		}
		r := pick(routers, i)
		t.w.background.Go(func() {
			defer t.begun.Done()
			t.ask(r, i)
		})
	}
}

// pick is the next router that is ready, or the next one if none is.
func pick(routers []*Router, i int) *Router {
	for j := range routers {
		if r := routers[(i+j)%len(routers)]; r.Ready() {
			return r
		}
	}
	return routers[i%len(routers)]
}

// Wait returns when every request has ended.
func (t *Traffic) Wait() *Traffic {
	t.begun.Wait()
	t.w.Logf("requests: %s", t)
	return t
}

// Total is over all routers.
func (t *Traffic) Total() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum Counts
	for _, c := range t.counts {
		sum = sum.add(c)
	}
	return sum
}

// At is what was asked of one router.
func (t *Traffic) At(r *Router) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[r.Name]
}

func (t *Traffic) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, name+": "+t.counts[name].String())
	}
	return strings.Join(parts, "; ")
}

// LostOnly fails the test if a request was refused, cut or late anywhere but at these routers. LostOnly() is: nowhere.
func (t *Traffic) LostOnly(at ...*Router) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.counts) == 0 {
		t.w.Errorf("there were no requests")
	}
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		allowed := slices.ContainsFunc(at, func(r *Router) bool { return r.Name == name })
		if c := t.counts[name]; c.Lost() > 0 && !allowed {
			t.w.Errorf("%s lost requests: %s; such as: %s", name, c, t.examples[name])
		}
	}
}
