package routing

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The part of the time that a prompt takes is told from that of the answer.
func TestWholeTellsPromptsFromAnswers(t *testing.T) {
	const a, b, c = 0.02, 100e-6, 0.008 // seconds; per token equivalent; per token of an answer
	for name, tt := range map[string]struct {
		tokens func(work float64, r *rand.Rand) float64
		want   float64 // seconds for work of 2,000
	}{
		"answers of any length":        {func(_ float64, r *rand.Rand) float64 { return 10 + 200*r.Float64() }, a + 2000*b},
		"longer for longer prompts":    {func(work float64, r *rand.Rand) float64 { return work/50 + 100*r.Float64() }, a + 2000*b},
		"all alike":                    {func(float64, *rand.Rand) float64 { return 64 }, 2000 * b},
		"exactly as long as the work":  {func(work float64, _ *rand.Rand) float64 { return work / 100 }, 2000 * (b + c/100)},
		"one token, as for embeddings": {func(float64, *rand.Rand) float64 { return 1 }, 2000 * b},
	} {
		t.Run(name, func(t *testing.T) {
			var w whole
			r := rand.New(rand.NewPCG(1, 2))
			for i := range 300 {
				if got := w.expect(2000); i <= wholeNeeds && got != 0 || i > 2*wholeNeeds && got == 0 {
					t.Fatalf("%v after %d answers", got, i)
				}
				work := 4000 * r.Float64()
				tokens := tt.tokens(work, r)
				w.add(work, tokens, (a+b*work+c*tokens)*(0.8+0.4*r.Float64()))
			}
			if got := w.expect(2000); math.Abs(got-tt.want) > tt.want/3 {
				t.Errorf("%.4f s, want %.4f", got, tt.want)
			}
		})
	}
}

func TestWholeOfPromptsThatAreAllAlike(t *testing.T) {
	var w whole
	for range 100 {
		w.add(700, 30, 0.5)
	}
	if got := w.expect(700); got != 0 {
		t.Errorf("%v s, though nothing tells the prompt's part", got)
	}
}

// Where nobody streams, the work of a prompt is pending for about as long as it takes, not until the answer ends.
func TestUnaryAnswersTeach(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 1, adaptive())))
	r := rand.New(rand.NewPCG(3, 4))
	unary := func(letters string) *Lease {
		pl, err := b.Epoch().Map(&Request{Endpoint: "demo", Text: letterText(letters), Unary: true})
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.Pick(&pl, nil, 1, b.now)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for i := range 60 {
		l := unary(string(rune('A'+i)) + strings.Repeat("u", r.IntN(80)))
		tokens := 10 + r.IntN(50)
		b.now = b.now.Add(time.Duration(l.ahead*float64(100*time.Microsecond)) + time.Duration(tokens)*10*time.Millisecond)
		l.Learn(int(l.ahead), tokens, b.now)
		l.Release()
	}
	l := unary(strings.Repeat("z", 40))
	took, sent := time.Duration(l.ahead*float64(100*time.Microsecond)), b.now
	for _, tt := range []struct {
		after   time.Duration
		pending bool
	}{{took / 3, true}, {3 * took, false}} {
		b.now = sent.Add(tt.after)
		b.send("y").Release() // looks
		if got := b.load("gpu-0").Prefill > 0; got != tt.pending {
			t.Errorf("after %s of %s: pending %t", tt.after, took, got)
		}
	}
	l.Release()
}
