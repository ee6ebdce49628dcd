package modelserver

import (
	"context"
	"time"
)

// sequence is one prompt and its answer on their way through the engine.
type sequence struct {
	blocks  []blockID // of the full blocks of prompt and answer
	prompt  int       // tokens, at least 1
	want    int       // tokens of the answer; 0 for an embedding
	limited bool      // want is the client's limit, not the natural end

	// progress holds the number of tokens made so far, the latest value only,
	// and is closed when the sequence is over. err and cached may be read after
	// a receive from it.
	progress chan int
	err      error // errStopped, or nil
	cached   int   // prompt tokens found in the cache

	// The engine's, guarded by its lock; ready is set before the queue sees it.
	ready    time.Time
	computed int // tokens whose KV entries exist
	chunk    int // tokens the step under way computes
	made     int // tokens of the answer
	held     []blockID
	reserved int
	gone     bool // aborted
	over     bool // has left the engine
}

// report replaces the progress that the reader has not taken yet. Only the
// engine sends, so there is room.
func (q *sequence) report() {
	select {
	case <-q.progress:
	default:
	}
	q.progress <- q.made
}

// wait returns how many tokens there are once that number has grown, or the
// reason why it will not.
func (q *sequence) wait(ctx context.Context) (int, error) {
	select {
	case made, more := <-q.progress:
		if !more {
			return q.want, q.err
		}
		return made, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
