package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warmring/warmring/test/modelserver"
)

// hostile bodies, of which every fifth is of each kind: unique with a tenant of its own, always the same, one byte longer than
// the one before it, unique at its end, and for a model that is not there.
func (w *World) hostile(i int) (body string, status int) {
	long := strings.Repeat("the same for all ", 60)
	prompt, named := w.caption(i)+strings.Repeat(strconv.Itoa(i)+" ", 600), model
	status = http.StatusOK
	switch i % 5 {
	case 1:
		prompt = long
	case 2:
		prompt = strings.Repeat("a", 1+i/5)
	case 3:
		prompt = long + w.caption(i)
	case 4:
		named, status = fmt.Sprint("model-", i), http.StatusNotFound
	}
	tenant := "one"
	if i%5 == 0 {
		tenant = fmt.Sprint("tenant ", i)
	}
	text, err := json.Marshal(map[string]any{
		"model": named, "max_tokens": 1, "prompt_cache_key": tenant, "user": w.caption(i),
		"messages": []message{{"user", prompt}},
	})
	if err != nil {
		w.Fatalf("%v", err)
	}
	return string(text), status
}

// Whatever prompts come, what the routers keep of them is bounded: the figures in their metrics, which have no series of the
// clients' making, and the memory.
func TestHostilePromptsLeaveNothing(t *testing.T) {
	// Of two seeds at once each would see the other one's memory.
	Run(t, Options{Seeds: 1, Most: 1}, func(w *World) {
		c := w.Cluster(3, w.Models(4, coarse, func(c *modelserver.Config) { c.KVTokens = c.MaxContext }))
		w.settle(c)
		ask := w.caller()
		burst := func(from, n int) size {
			for i := from; i < from+n; i++ {
				body, status := w.hostile(i)
				ask.send(c.Routers[i%len(c.Routers)], body, func(a answer) {
					if a.status != status {
						w.Errorf("request %d: %+v", i, a)
					}
				})
				if i%20 == 0 {
					ask.asked.Wait()
				}
			}
			ask.asked.Wait()
			for _, r := range c.Routers {
				w.withinBounds(r)
			}
			return w.size(c)
		}
		first := burst(0, 2500)
		last := burst(2500, 2500)
		w.Logf("%+v became %+v", first, last)
		// The directory may still grow: by 2,000 pins of 150 bytes, and as many placements, on each router.
		if last.series != first.series || last.heap > first.heap+4<<20 || last.goroutines > first.goroutines+20 {
			w.Errorf("%+v became %+v", first, last)
		}
	})
}

// withinBounds holds a router's figures against what a fleet of up to eight may take.
func (w *World) withinBounds(r *Router) {
	text := w.scrape(r)
	for name, most := range map[string]float64{
		"sketch_counters": 4096, "sketch_capacity": 4096, "directory_pins": 16_384, "hot_table_runs": 64, "hot_table_chunks": 64 * 1024,
	} {
		if n := metric(text, "warmring_"+name); n > most || n == 0 {
			w.Errorf("%s: %s is %v, at most %v", r.Name, name, n, most)
		}
	}
}

// metric is the sum of a metric's samples.
func metric(text, name string) (sum float64) {
	for line := range strings.Lines(text) {
		columns := strings.Fields(line)
		if len(columns) < 2 || columns[0] != name && !strings.HasPrefix(columns[0], name+"{") {
			continue
		}
		if v, err := strconv.ParseFloat(columns[len(columns)-1], 64); err == nil {
			sum += v
		}
	}
	return sum
}
