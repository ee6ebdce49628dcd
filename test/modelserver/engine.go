package modelserver

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

var (
	errStopped = errors.New("modelserver: the engine has stopped")
	errFull    = errors.New("modelserver: too many requests wait")
)

// engine computes tokens in steps, as vLLM's V1 scheduler plans them: running
// requests first, then waiting ones in order of arrival while there is room for
// their tokens, their sequence and all their blocks.
type engine struct {
	cfg  Config
	wake chan struct{} // holds one signal: something changed while idle

	mu      sync.Mutex // guards all below, and the fields of sequences that say so
	cache   *cache
	waiting []*sequence
	running []*sequence
	gone    int     // sequences that were aborted but not yet taken out
	pace    float64 // factor on a step's time; +Inf stops the engine
	stopped bool
	stats   Stats
}

// newEngine returns an engine that computes while run runs.
func newEngine(cfg Config) *engine {
	return &engine{
		cfg:   cfg,
		wake:  make(chan struct{}, 1),
		cache: newCache(cfg.KVTokens / cfg.Block),
		pace:  1,
	}
}

// run computes steps until ctx ends. Whatever is unfinished then fails with
// errStopped.
func (e *engine) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d, stepping := e.begin(time.Now())
		wake, due := e.wake, timer.C
		if stepping {
			wake = nil // a step under way is never interrupted
		}
		if d > 0 {
			timer.Reset(d)
		} else {
			due = nil
		}
		select {
		case <-ctx.Done():
			e.stop()
			return
		case <-wake:
		case <-due:
		}
		if stepping {
			e.end()
		}
	}
}

// submit queues q.
func (e *engine) submit(q *sequence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return errStopped
	}
	if len(e.waiting) >= e.cfg.MaxWaiting {
		return errFull
	}
	q.ready = time.Now().Add(e.scaled(e.cfg.Cost.Fixed))
	e.waiting = append(e.waiting, q)
	e.stats.Received++
	e.nudge()
	return nil
}

// abort lets q leave at the next step; one that is over stays as it is.
func (e *engine) abort(q *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.over || q.gone {
		return
	}
	q.gone = true
	e.gone++
	e.nudge()
}

// setPace multiplies the time of the following steps; +Inf stops them.
func (e *engine) setPace(factor float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace = factor
	e.nudge()
}

// nudge lets an idle run look again.
func (e *engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// scaled applies Config.Speed to a duration.
func (e *engine) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / e.cfg.Speed)
}

// begin plans a step and returns its duration. When there is nothing to compute
// it returns how long until there will be, or 0 when only a signal can tell.
func (e *engine) begin(now time.Time) (d time.Duration, stepping bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reap()
	if math.IsInf(e.pace, 1) {
		return 0, false
	}
	cost, budget := e.planRunning()
	cost += e.admit(now, budget)
	if len(e.running) > 0 {
		e.stats.Steps++
		d := e.scaled(time.Duration(float64(e.cfg.Cost.Step+cost) * e.pace))
		return max(d, 1), true
	}
	if len(e.waiting) > 0 {
		return e.waiting[0].ready.Sub(now), false
	}
	return 0, false
}

// reap takes the aborted sequences out.
func (e *engine) reap() {
	if e.gone == 0 {
		return
	}
	left := func(q *sequence) bool {
		if q.gone {
			e.stats.Aborted++
			e.leave(q)
		}
		return q.gone
	}
	e.waiting = slices.DeleteFunc(e.waiting, left)
	e.running = slices.DeleteFunc(e.running, left)
	e.gone = 0
}

// planRunning gives each running sequence its share of the step's tokens and
// returns their cost and the tokens that remain.
func (e *engine) planRunning() (cost time.Duration, budget int) {
	budget = e.cfg.BatchTokens
	for _, q := range e.running {
		if q.computed < q.prompt {
			q.chunk = min(q.prompt-q.computed, budget)
			cost += e.cfg.Cost.prefill(q.computed, q.computed+q.chunk)
		} else {
			q.chunk = min(1, budget)
			cost += e.cfg.Cost.decode(q.computed+1) * time.Duration(q.chunk)
		}
		budget -= q.chunk
		e.publish(q)
	}
	return cost, budget
}

// admit moves waiting sequences into the batch, the first one first, and
// returns the cost of their first chunks.
func (e *engine) admit(now time.Time, budget int) (cost time.Duration) {
	for len(e.waiting) > 0 && budget > 0 && len(e.running) < e.cfg.MaxSeqs {
		q := e.waiting[0]
		if q.ready.After(now) || !e.allot(q) {
			return cost
		}
		e.waiting[0] = nil // the array lives on
		e.waiting = e.waiting[1:]
		q.chunk = min(q.prompt-q.computed, budget)
		budget -= q.chunk
		cost += e.cfg.Cost.prefill(q.computed, q.computed+q.chunk)
		e.running = append(e.running, q)
		e.publish(q)
	}
	return cost
}

// allot reserves the blocks of q's prompt and answer. At least one token of the
// prompt is left to compute, for the first token of the answer comes from it.
func (e *engine) allot(q *sequence) bool {
	hit := q.blocks[:e.cache.match(q.blocks[:(q.prompt-1)/e.cfg.Block])]
	need := blocksFor(q.prompt+q.want, e.cfg.Block) - len(hit)
	if !e.cache.reserve(hit, need) {
		return false
	}
	q.held = append(q.held, hit...)
	q.reserved = need
	q.cached = len(hit) * e.cfg.Block
	q.computed = q.cached
	e.stats.Started++
	e.stats.PromptTokens += q.prompt
	e.stats.CachedTokens += q.cached
	return true
}

// publish makes the blocks that this step fills shareable at once, as vLLM
// does, so that an equal prompt admitted in the same step finds them.
func (e *engine) publish(q *sequence) {
	for b := q.computed / e.cfg.Block; b < (q.computed+q.chunk)/e.cfg.Block; b++ {
		if e.cache.publish(q.blocks[b]) {
			q.held = append(q.held, q.blocks[b])
			q.reserved--
		}
	}
}

// end applies the results of a step.
func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = slices.DeleteFunc(e.running, func(q *sequence) bool {
		q.computed += q.chunk
		if q.chunk == 0 || q.computed < q.prompt {
			return false
		}
		// The chunk that completes the prompt makes the first token.
		if q.made < q.want {
			q.made++
			e.stats.GeneratedTokens++
			q.report()
		}
		if q.made < q.want {
			return false
		}
		e.stats.Served++
		if q.limited {
			e.stats.Limited++
		}
		e.leave(q)
		return true
	})
}

// leave gives q's blocks back and ends its progress.
func (e *engine) leave(q *sequence) {
	e.cache.release(q.held, q.reserved)
	q.held, q.reserved = nil, 0
	q.over = true
	close(q.progress)
}

// stop fails everything that is unfinished.
func (e *engine) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for _, q := range slices.Concat(e.waiting, e.running) {
		q.err = errStopped
		e.stats.Aborted++
		e.leave(q)
	}
	e.waiting, e.running, e.gone = nil, nil, 0
}
