package conformance

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/option"
)

// endless is the length of an answer that no test waits for.
const endless = 100_000

// promptly is how soon a server has to know that its client left.
const promptly = 100 * time.Millisecond

// load counts the requests on all servers, and those that were aborted.
func (c *cluster) load() (n, aborted int) {
	for _, s := range c.servers {
		st := s.Stats()
		n += st.Running + st.Waiting
		aborted += st.Aborted
	}
	return n, aborted
}

// wantPrompt aborts a request several times and fails the test unless the
// server always stopped and at least once did so promptly. More cannot be asked
// of a machine that does other things too. The function abort returns when the
// client left.
func wantPrompt(t *testing.T, c *cluster, abort func() time.Time) {
	t.Helper()
	least := limit
	for range 5 {
		_, before := c.load()
		left := abort()
		eventually(t, "the server is idle after an abort", func() bool {
			n, aborted := c.load()
			return n == 0 && aborted == before+1
		})
		least = min(least, time.Since(left))
	}
	t.Logf("the server stopped %v after the client left", least)
	if least > promptly {
		t.Errorf("the server stopped %v after the client left at the earliest, want within %v", least, promptly)
	}
}

func TestAbortMidStream(t *testing.T) {
	c := start(t)
	for name, client := range c.clients() {
		t.Run(name, func(t *testing.T) {
			wantPrompt(t, c, func() time.Time {
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				var head *http.Response
				stream := client.Chat.Completions.NewStreaming(ctx, ask(demo, endless), option.WithResponseInto(&head))
				for range 3 {
					if !stream.Next() {
						t.Fatalf("the stream ended: %v", stream.Err())
					}
				}
				if got := c.servers[head.Header.Get(headerBackend)].Stats().Running; got != 1 {
					t.Errorf("%d requests run on the server that streams", got)
				}
				left := time.Now()
				cancel()
				for stream.Next() { // what had arrived before
				}
				if !errors.Is(stream.Err(), context.Canceled) {
					t.Errorf("the stream ended with %v", stream.Err())
				}
				return left
			})
		})
	}
}

func TestAbortBeforeAnswer(t *testing.T) {
	c := start(t)
	for name, client := range c.clients() {
		t.Run(name, func(t *testing.T) {
			wantPrompt(t, c, func() time.Time {
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := client.Chat.Completions.New(ctx, ask(demo, endless))
					done <- err
				}()
				eventually(t, "the request runs", func() bool { n, _ := c.load(); return n == 1 })
				left := time.Now()
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the request ended with %v", err)
				}
				return left
			})
		})
	}
}
