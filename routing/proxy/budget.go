package proxy

import (
	"sync"
	"time"
)

// budget keeps retries from becoming a storm: every request earns a fraction
// of a retry, and a few a second are always allowed.
type budget struct {
	ratio float64 // earned by each request
	floor float64 // earned by each second

	mu     sync.Mutex // guards the rest
	tokens float64
	last   time.Time
}

// budgetSeconds is how long unspent retries are kept, in seconds of the floor
// and of 1,000 requests' worth of the ratio.
const budgetSeconds = 10

func (b *budget) earn(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	b.tokens = min(b.tokens+b.ratio, b.most())
}

// spend reports whether a retry is allowed now, and takes it.
func (b *budget) spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) most() float64 { return max(1, b.floor*budgetSeconds, b.ratio*1000) }

func (b *budget) refill(now time.Time) {
	if !b.last.IsZero() {
		b.tokens = min(b.tokens+b.floor*max(0, now.Sub(b.last).Seconds()), b.most())
	}
	b.last = now
}
