package modelserver

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// bench runs an engine inside a synctest bubble.
type bench struct {
	*Server
	t *testing.T
}

// inBubble calls f in virtual time with an engine that is idle.
func inBubble(t *testing.T, change func(*Config), f func(b *bench)) {
	t.Helper()
	cfg := Default()
	if change != nil {
		change(&cfg)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, nil) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		f(&bench{s, t})
	})
}

// prompt returns n tokens; prompts of one family begin with the same shared
// tokens.
func prompt(shared, n int, family, own uint64) []token {
	common, rest := rand.New(rand.NewPCG(family, 0)), rand.New(rand.NewPCG(family, own+1))
	out := make([]token, n)
	for i := range out {
		if i < shared {
			out[i] = token(common.Uint32())
		} else {
			out[i] = token(rest.Uint32())
		}
	}
	return out
}

// submit queues a prompt.
func (b *bench) submit(tokens []token, want int) *sequence {
	b.t.Helper()
	q, _ := b.sequence(0, tokens, want)
	if err := b.engine.submit(q); err != nil {
		b.t.Fatal(err)
	}
	return q
}

// finish waits until q has all its tokens.
func (b *bench) finish(q *sequence) {
	b.t.Helper()
	for made := -1; made < q.want; {
		var err error
		if made, err = q.wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
}

// first returns the time until q's first token.
func (b *bench) first(q *sequence) time.Duration {
	b.t.Helper()
	start := time.Now()
	if _, err := q.wait(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return time.Since(start)
}

// around reports an error unless got is within 2 % of want.
func (b *bench) around(what string, got, want time.Duration) {
	b.t.Helper()
	if math.Abs(float64(got-want)) > 0.02*float64(want) {
		b.t.Errorf("%s: %v, want about %v", what, got, want)
	}
}

// idle fails unless the engine is empty and holds no block.
func (b *bench) idle() {
	b.t.Helper()
	st := b.Stats()
	if st.Waiting != 0 || st.Running != 0 || st.BlocksUsed != 0 || st.Received != st.Served+st.Aborted {
		b.t.Errorf("the engine is not idle: %+v", st)
	}
}

func TestTimeToFirstTokenOfAnIdleServer(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		cold := b.submit(prompt(8000, 8192, 1, 1), 20)
		b.around("cold, one full step", b.first(cold), 305*time.Millisecond)
		b.finish(cold)
		warm := b.submit(prompt(8000, 8300, 1, 2), 20)
		b.around("warm", b.first(warm), 42300*time.Microsecond)
		if warm.cached != 8000 {
			t.Errorf("%d tokens cached, want 8000", warm.cached)
		}
		b.finish(warm)

		// One batch takes 8,192 tokens; 108 more need a second step.
		b.around("cold, two steps", b.first(b.submit(prompt(0, 8300, 2, 1), 1)), 320*time.Millisecond)
		b.idle()
	})
}

func TestTimeBetweenTokens(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		q := b.submit(prompt(0, 8000, 1, 1), 101)
		b.first(q)
		start := time.Now()
		b.finish(q)
		// 11 ms + 30 us + 17.5 us for each of about 8.05 thousand tokens.
		b.around("100 more tokens", time.Since(start), 100*11171*time.Microsecond)
	})
}

func TestSpeedDividesTime(t *testing.T) {
	inBubble(t, func(c *Config) { c.Speed = 10 }, func(b *bench) {
		b.around("ten times as fast", b.first(b.submit(prompt(0, 8192, 1, 1), 1)), 30500*time.Microsecond)
	})
}

func TestTwoPromptsShareSteps(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		one := b.submit(prompt(0, 4000, 1, 1), 50)
		two := b.submit(prompt(0, 4000, 2, 1), 50)
		// Both prefills fit one step: 20 + 11 + 2 x 4,000 x 30 us x (1 + 2,000/36,000).
		b.around("first of one", b.first(one), 284300*time.Microsecond)
		if d := b.first(two); d != 0 {
			t.Errorf("the second prompt came %v later", d)
		}
		start := time.Now()
		b.finish(one)
		b.finish(two)
		// 11 ms + 2 x (30 us + 4.02 x 17.5 us) a step: not twice 11 ms.
		b.around("49 more tokens each", time.Since(start), 49*11201*time.Microsecond)
	})
}

func TestEqualPromptsOfOneStepShareTheirPrefill(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		one, two := b.submit(prompt(0, 1600, 1, 1), 1), b.submit(prompt(0, 1600, 1, 1), 1)
		b.finish(one)
		b.finish(two)
		if one.cached != 0 || two.cached != 1584 { // the last block is always computed
			t.Errorf("cached %d and %d, want 0 and 1584", one.cached, two.cached)
		}
	})
}

func TestAnswersAreCached(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		turn := prompt(0, 100, 1, 1)
		q, answer := b.sequence(0, turn, 60)
		if err := b.engine.submit(q); err != nil {
			t.Fatal(err)
		}
		b.finish(q)
		next := append(encode(turn, answer, b.cfg.BytesPerToken), prompt(0, 50, 9, 9)...)
		q = b.submit(next, 1)
		b.finish(q)
		// 159 of 160 tokens have KV entries: the last one was never read.
		if q.cached != 144 {
			t.Errorf("%d tokens cached, want 144", q.cached)
		}
	})
}

func TestLongPromptsDoNotStopDecoding(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		q := b.submit(prompt(0, 100, 1, 1), 1000)
		b.first(q)
		long := b.submit(prompt(0, 30_000, 2, 1), 1)
		b.finish(long)
		made, err := q.wait(b.t.Context())
		if err != nil || made < 4 { // 30,000 tokens take four steps
			t.Errorf("%d tokens meanwhile (%v), want 4 or more", made, err)
		}
	})
}

func TestFullMemoryMakesRequestsWaitInOrder(t *testing.T) {
	small := func(c *Config) { c.KVTokens, c.MaxContext = 1600, 1600 }
	inBubble(t, small, func(b *bench) {
		one := b.submit(prompt(0, 900, 1, 1), 100)  // 63 of 100 blocks
		two := b.submit(prompt(0, 900, 2, 1), 100)  // does not fit beside it
		three := b.submit(prompt(0, 100, 3, 1), 10) // would fit, but waits its turn
		b.first(one)
		if st := b.Stats(); st.Running != 1 || st.Waiting != 2 || st.BlocksUsed != 63 {
			t.Errorf("not one running, two waiting: %+v", st)
		}
		b.finish(one)
		b.first(three)
		select {
		case <-two.progress:
		default:
			t.Error("the second request was overtaken")
		}
		b.finish(two)
		b.finish(three)
		b.idle()
		if st := b.Stats(); st.BlocksEvicted == 0 || st.Served != 3 {
			t.Errorf("nothing was evicted: %+v", st)
		}
	})
}

func TestLeastRecentlyUsedPromptIsEvicted(t *testing.T) {
	small := func(c *Config) { c.KVTokens, c.MaxContext = 3200, 3200 }
	inBubble(t, small, func(b *bench) {
		ask := func(family uint64) int {
			q := b.submit(prompt(0, 960, family, 1), 1)
			b.finish(q)
			return q.cached
		}
		for _, step := range []struct {
			family uint64
			cached int
		}{
			{1, 0},
			{2, 0},
			{3, 0}, // 180 of 200 blocks are full
			{1, 944},
			{2, 944}, // 3 is the oldest now
			{4, 0},   // pushes the tail of 3 out
			{1, 944},
			{2, 944},
			{3, 304}, // the others took 41 blocks; 2 of these were the last ones of 1 and 2, made anew since
		} {
			if got := ask(step.family); got != step.cached {
				t.Errorf("prompt %d: %d tokens cached, want %d", step.family, got, step.cached)
			}
		}
	})
}

func TestAbortFreesBlocks(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		running := b.submit(prompt(0, 1000, 1, 1), 5000)
		b.first(running)
		waiting := b.submit(prompt(0, 1000, 2, 1), 5000)
		b.engine.abort(running)
		b.engine.abort(waiting)
		b.engine.abort(waiting)
		time.Sleep(30 * time.Millisecond)
		b.idle()
		if st := b.Stats(); st.Aborted != 2 || st.Started != 1 {
			t.Errorf("want one of two started, two aborted: %+v", st)
		}
		again := b.submit(prompt(0, 1000, 1, 1), 1)
		b.finish(again)
		if again.cached != 992 {
			t.Errorf("%d tokens cached after the abort, want 992", again.cached)
		}
		b.engine.abort(again) // is over: nothing happens
		if st := b.Stats(); st.Aborted != 2 || st.Served != 1 {
			t.Errorf("an abort after the end was counted: %+v", st)
		}
	})
}

func TestWedgedAndSlow(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		set := func(f Fault) {
			if err := b.SetFault(f); err != nil {
				t.Fatal(err)
			}
		}
		set(Fault{Kind: Wedged})
		q := b.submit(prompt(0, 100, 1, 1), 1)
		gone := b.submit(prompt(0, 100, 2, 1), 1)
		time.Sleep(time.Hour)
		if st := b.Stats(); st.GeneratedTokens != 0 || st.Waiting != 2 {
			t.Errorf("a wedged engine moved: %+v", st)
		}
		b.engine.abort(gone)
		time.Sleep(time.Second)
		if st := b.Stats(); st.Waiting != 1 || st.Aborted != 1 {
			t.Errorf("a wedged engine kept an aborted request: %+v", st)
		}
		set(Fault{Kind: Slow, Factor: 100})
		b.around("slow step", b.first(q), 1400*time.Millisecond) // 100 x (11 + 3 ms)
		set(Fault{})
		b.around("healthy", b.first(b.submit(prompt(0, 100, 3, 1), 1)), 34*time.Millisecond)
		b.idle()
	})
}

func TestQueueIsBounded(t *testing.T) {
	inBubble(t, func(c *Config) { c.MaxWaiting = 2 }, func(b *bench) {
		b.submit(prompt(0, 10, 1, 1), 1)
		b.submit(prompt(0, 10, 1, 1), 1)
		q, _ := b.sequence(0, prompt(0, 10, 1, 1), 1)
		if err := b.engine.submit(q); !errors.Is(err, errFull) {
			t.Errorf("submit to a full queue: %v", err)
		}
	})
}

// A day of random requests and aborts: every counter adds up at every moment
// and the memory is empty in the end.
func TestCountersAddUp(t *testing.T) {
	small := func(c *Config) {
		c.KVTokens, c.MaxContext, c.MaxSeqs, c.BatchTokens = 4096, 2048, 4, 600
	}
	inBubble(t, small, func(b *bench) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 400 {
			q := b.submit(prompt(r.IntN(700), 1+r.IntN(1400), r.Uint64N(4), r.Uint64N(8)), r.IntN(100))
			time.Sleep(time.Duration(r.ExpFloat64() * float64(400*time.Millisecond)))
			if r.IntN(3) == 0 {
				b.engine.abort(q)
			}
			st := b.Stats()
			if st.Received != st.Waiting+st.Running+st.Served+st.Aborted {
				t.Fatalf("requests are lost: %+v", st)
			}
			if st.BlocksUsed > st.BlocksTotal || st.CachedTokens > st.PromptTokens {
				t.Fatalf("impossible: %+v", st)
			}
		}
		time.Sleep(time.Hour)
		b.idle()
		st := b.Stats()
		if st.Served == 0 || st.Aborted == 0 || st.BlocksEvicted == 0 || st.CachedTokens == 0 || st.Received != 400 {
			t.Errorf("the run was too tame: %+v", st)
		}
	})
}

func TestStopFailsWhatIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Default())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, nil) }()
		b := &bench{s, t}
		q := b.submit(prompt(0, 100, 1, 1), 1000)
		b.first(q)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for err == nil {
			_, err = q.wait(t.Context())
		}
		if !errors.Is(err, errStopped) {
			t.Errorf("the unfinished request ended with %v", err)
		}
		b.idle()
	})
}
