package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxOpen is how many requests may be open; one more fails.
const maxOpen = 4096

// load is open: requests begin at random times (a Poisson process) however long the others take. The same seed gives the
// same times and prompts.
type load struct {
	rate    float64 // requests a second, over all routers in turn
	over    time.Duration
	seed    uint64
	prompts [][]byte // bodies
}

// outcome is how the requests of a load ended.
type outcome struct {
	sent, failed int
	example      string         // of a failure
	decisions    map[string]int // X-Warmring-Decision
	took         []time.Duration
	late         []time.Duration // how long after its time each request began: how busy this process was
}

// run sends until the time is over or ctx ends, and returns when every request has ended.
func (l load) run(ctx context.Context, c *client, routers []router) outcome {
	out := outcome{decisions: map[string]int{}}
	var mu sync.Mutex // guards out
	var requests sync.WaitGroup
	slots := make(chan struct{}, maxOpen)
	r := rand.New(rand.NewPCG(l.seed, 0))
	sending := context.WithoutCancel(ctx) // a request that was begun is ended
	began := time.Now()
	for at := time.Duration(0); at < l.over; at += time.Duration(r.ExpFloat64() / l.rate * float64(time.Second)) {
		body := l.prompts[r.IntN(len(l.prompts))]
		if wait := time.Until(began.Add(at)); wait > 0 && !sleep(ctx, wait) {
			break
		}
		late := time.Since(began.Add(at))
		to := routers[out.sent%len(routers)]
		out.sent++
		select {
		case slots <- struct{}{}:
		default:
			mu.Lock()
			out.fail(fmt.Errorf("%d requests are open", maxOpen))
			mu.Unlock()
			continue
		}
		requests.Go(func() {
			defer func() { <-slots }()
			decision, took, err := ask(sending, c, to, body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.fail(err)
				return
			}
			out.decisions[decision]++
			out.took, out.late = append(out.took, took), append(out.late, late)
		})
	}
	requests.Wait()
	return out
}

func (o *outcome) fail(err error) {
	o.failed++
	if o.example == "" {
		o.example = err.Error()
	}
}

func (o *outcome) merge(p outcome) {
	o.sent, o.failed = o.sent+p.sent, o.failed+p.failed
	if o.example == "" {
		o.example = p.example
	}
	for decision, n := range p.decisions {
		if o.decisions == nil {
			o.decisions = map[string]int{}
		}
		o.decisions[decision] += n
	}
	o.took, o.late = append(o.took, p.took...), append(o.late, p.late...)
}

func ask(ctx context.Context, c *client, to router, body []byte) (decision string, took time.Duration, err error) {
	began := time.Now()
	header, _, err := c.send(ctx, http.MethodPost, "http://"+to.API+"/v1/chat/completions", body)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", to.Name, err)
	}
	return header.Get("X-Warmring-Decision"), time.Since(began), nil
}

// prompts makes n bodies that differ from the first characters on, each longer than the prefix that routes it.
func prompts(n, tokens int) [][]byte {
	r := rand.New(rand.NewPCG(7, 7))
	out := make([][]byte, n)
	for i := range out {
		var text strings.Builder
		for text.Len() < 1200 {
			fmt.Fprintf(&text, "%06x ", r.IntN(1<<24))
		}
		out[i] = fmt.Appendf(nil, `{"model":%q,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, model, tokens, text.String())
	}
	return out
}
