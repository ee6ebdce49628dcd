package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// The words of scenarios about what is cached: streamed chats, and what their usage says.

// message is one of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// streamed is the body of a chat whose answer, of so many tokens, is a stream that ends with its usage.
func streamed(tokens int, messages ...message) string {
	return completion(map[string]any{"stream": true, "stream_options": map[string]bool{"include_usage": true}}, tokens, messages)
}

// unary is the body of a chat whose answer, of so many tokens, comes as a whole.
func unary(tokens int, messages ...message) string {
	return completion(map[string]any{}, tokens, messages)
}

func completion(fields map[string]any, tokens int, messages []message) string {
	fields["model"], fields["max_tokens"], fields["messages"] = model, tokens, messages
	body, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// usage is what the model server says of a prompt, in tokens; zero of an answer that was none.
func (a *answer) usage() (prompt, cached int) {
	var said struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	last := a.text[max(0, strings.LastIndex(a.text, `data: {`)):]
	last, _, _ = strings.Cut(strings.TrimPrefix(last, "data: "), "\n")
	if json.Unmarshal([]byte(last), &said) != nil {
		return 0, 0
	}
	return said.Usage.Prompt, said.Usage.Details.Cached
}

// question is one request of some kind. Questions of one key have the same beginning; those without a key share
// nothing.
type question struct{ kind, key, prompt string }

// tally is what became of the questions of one kind. Of those whose key was asked for before: how many went to another
// server than then, and how many tokens were cached of how many.
type tally struct {
	asked, away                  int
	again, moved, prompt, cached int
	at                           map[string]int // by server
}

// add counts a question that was asked before, and answered by a server that may be another one.
func (t *tally) add(a *answer, before string, prompt, cached int) {
	t.again++
	t.prompt, t.cached = t.prompt+prompt, t.cached+cached
	if a.backend != before {
		t.moved++
	}
}

func (t *tally) moves() float64 { return float64(t.moved) / float64(max(1, t.again)) }
func (t *tally) hits() float64  { return float64(t.cached) / float64(max(1, t.prompt)) }

func (t *tally) String() string {
	return fmt.Sprintf("%d again: %.3f moved, %.3f cached", t.again, t.moves(), t.hits())
}

// flow is an open load of questions, at random times to random routers.
type flow struct {
	w        *World
	rate     float64 // a second
	requests int
	warm     int // of these, the first, which do not count
	tokens   int // of an answer
	draw     func(r *rand.Rand) question
	body     func(tokens int, messages ...message) string // nil: streamed

	mu    sync.Mutex // guards what follows
	kinds map[string]*tally
	last  map[string]string // by key: who answered last
}

// run asks at the same times for the same prompts, whatever the cluster, and fails the test where there is no answer.
func (f *flow) run(c *Cluster) *flow {
	f.kinds, f.last = map[string]*tally{}, map[string]string{}
	if f.body == nil {
		f.body = streamed
	}
	ask := f.w.caller()
	when, what, who := rand.New(rand.NewPCG(f.w.Seed, 1)), rand.New(rand.NewPCG(f.w.Seed, 2)), rand.New(rand.NewPCG(f.w.Seed, 3))
	next := time.Now()
	for i := range f.requests {
		next = next.Add(time.Duration(when.ExpFloat64() / f.rate * float64(time.Second)))
		time.Sleep(time.Until(next))
		q := f.draw(what)
		ask.send(c.Routers[who.IntN(len(c.Routers))], f.body(f.tokens, message{"user", q.prompt}), func(a answer) {
			f.count(q, a, i >= f.warm)
		})
	}
	ask.asked.Wait()
	return f
}

func (f *flow) count(q question, a answer, counts bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prompt, cached := a.usage()
	if prompt == 0 {
		f.w.Errorf("no answer: %+v", a)
	}
	before := f.last[q.key]
	f.last[q.key] = a.backend
	t := f.kinds[q.kind]
	if t == nil {
		t = &tally{at: map[string]int{}}
		f.kinds[q.kind] = t
	}
	if !counts {
		return
	}
	t.asked++
	t.at[a.backend]++
	if a.backend != a.home {
		t.away++
	}
	if before != "" && q.key != "" {
		t.add(&a, before, prompt, cached)
	}
}
