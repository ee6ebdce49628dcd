package telemetry

import (
	"errors"
	"math/bits"
	"net/http"
	"time"

	"github.com/warmring/warmring/api"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// Figures are what is known of the requests that ended within a span of time.
// A figure that is not known is nil, never 0.
type Figures struct {
	Seconds  float64  // that the span is long
	Requests float64  // per second
	Errors   float64  // per second: answers with 5xx or 429, and answers that broke off; not clients that left
	HitRate  *float64 // 0..1: cached prompt tokens of all prompt tokens, as the servers report them
	TTFTp50  *float64 // milliseconds until the first byte of a streamed answer, median
	TTFTp90  *float64 // as above, 90th percentile
	InFlight *float64 // mean of one sample a second; nil without traffic
}

// decisionCount is the number of reasons to choose a server.
const decisionCount = 7

// decisionNames are those reasons in the order in which a tally counts them.
func decisionNames() [decisionCount]routing.Decision {
	return [...]routing.Decision{
		routing.DecisionHome, routing.DecisionHot, routing.DecisionPlaced, routing.DecisionOverflow,
		routing.DecisionRetry, routing.DecisionRandom, routing.DecisionLeast,
	}
}

// tally adds up requests. It has a fixed size, so that counting allocates nothing.
type tally struct {
	requests, errors  uint32
	inFlight, samples uint32 // the sum of the samples, and how many
	prompt, cached    uint64
	decisions         [decisionCount]uint32
	ttft, overhead    histogram
}

// count adds one request.
func (t *tally) count(r *api.Record) {
	t.requests++
	if seenAsError(r) {
		t.errors++
	}
	if r.Attempts == 0 {
		return // no backend saw it
	}
	for i, d := range decisionNames() {
		if d == r.Decision {
			t.decisions[i]++
			break
		}
	}
	t.overhead.add(r.Overhead)
	if r.Usage.Known && r.Usage.HasCached {
		t.prompt += uint64(max(r.Usage.Prompt, 0))
		t.cached += uint64(max(r.Usage.Cached, 0))
	}
	if hasPace(&r.Result) {
		t.ttft.add(r.FirstByte)
	}
}

// seenAsError: the client saw a failure that is the service's.
func seenAsError(r *api.Record) bool {
	broken := r.Broken != nil && !errors.Is(r.Broken, proxy.ErrClientGone)
	return broken || r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests
}

// merge adds o to t.
func (t *tally) merge(o *tally) {
	t.requests += o.requests
	t.errors += o.errors
	t.inFlight += o.inFlight
	t.samples += o.samples
	t.prompt += o.prompt
	t.cached += o.cached
	for i, n := range o.decisions {
		t.decisions[i] += n
	}
	t.ttft.merge(&o.ttft)
	t.overhead.merge(&o.overhead)
}

// figures of t, which covers this span.
func (t *tally) figures(span time.Duration) Figures {
	seconds := span.Seconds()
	f := Figures{
		Seconds: seconds, TTFTp50: t.ttft.quantile(.5), TTFTp90: t.ttft.quantile(.9),
		HitRate: ratio(t.cached, t.prompt), InFlight: ratio(uint64(t.inFlight), uint64(t.samples)),
	}
	if seconds > 0 {
		f.Requests, f.Errors = float64(t.requests)/seconds, float64(t.errors)/seconds
	}
	return f
}

// ratio is nil when there is nothing to divide by.
func ratio(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
}

// A histogram's buckets split each doubling into four equal parts, so that a quantile is off by a quarter at most. They
// begin at 16 us, below which all is one bucket, and end at 134 s.
const (
	histogramParts   = 4
	histogramFirst   = 4 // log2 of the least time that has buckets of its own, in us
	histogramLast    = 27
	histogramBuckets = 1 + (histogramLast-histogramFirst)*histogramParts
)

type histogram [histogramBuckets]uint32

func (h *histogram) add(d time.Duration) { h[bucket(d)]++ }

func bucket(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 1<<histogramFirst {
		return 0
	}
	doubling := bits.Len64(us) - 1
	part := int(us>>(doubling-2)) % histogramParts // the two bits below the highest
	return min(1+(doubling-histogramFirst)*histogramParts+part, histogramBuckets-1)
}

// lower is where bucket i begins, in microseconds.
func lower(i int) float64 {
	if i == 0 {
		return 0
	}
	doubling, part := (i-1)/histogramParts, (i-1)%histogramParts
	return float64(uint64(1)<<(histogramFirst+doubling)) * (1 + float64(part)/histogramParts)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// quantile q (0..1) in milliseconds, as if the times of a bucket were spread evenly over it; nil when it is empty.
func (h *histogram) quantile(q float64) *float64 {
	var total uint64
	for _, n := range h {
		total += uint64(n)
	}
	if total == 0 {
		return nil
	}
	rest := q * float64(total)
	for i, n := range h {
		if rest <= float64(n) && n > 0 {
			return new((lower(i) + (lower(i+1)-lower(i))*rest/float64(n)) / 1000)
		}
		rest -= float64(n)
	}
	return new(lower(histogramBuckets) / 1000) // only rounding leads here
}
