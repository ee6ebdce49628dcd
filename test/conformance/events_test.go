package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// http2Client speaks HTTP/2 in clear text and nothing else.
func http2Client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// lockstep is a server that sends the next event only when the client has the
// last one: a router that waits for more than one event stops it.
type lockstep struct {
	size, events int
	sent         time.Time // of the last event; seen orders it before its reading
	seen         chan struct{}
	gone         <-chan struct{} // closed at the end of the test
}

func (l *lockstep) event() []byte {
	return fmt.Appendf(nil, "data: %s\n\n", strings.Repeat("x", l.size))
}

func (l *lockstep) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	event, flush := l.event(), http.NewResponseController(w).Flush
	for range l.events {
		l.sent = time.Now()
		if _, err := w.Write(event); err != nil || flush() != nil {
			return // the client misses it
		}
		select {
		case <-l.seen:
		case <-l.gone:
			return
		}
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // the client misses it
}

// atOnce is more than any event takes on a busy machine with the race detector,
// and less than a timer that flushes now and then. How long events really take
// is logged.
const atOnce = 10 * time.Millisecond

// report fails the test if even the quick events were late, as they are behind a
// router that waits for a timer. Late ones among them are not the router's on a
// machine that does other things too.
func report(t *testing.T, delays []time.Duration) {
	t.Helper()
	slices.Sort(delays)
	quick := delays[len(delays)/10]
	t.Logf("delay of an event: p10 %v, median %v, p99 %v", quick, delays[len(delays)/2], delays[len(delays)*99/100])
	if quick > atOnce {
		t.Errorf("nine in ten events took over %v from the server to the client, want less than %v", quick, atOnce)
	}
}

// TestEventsOneByOne: each event passes at once, whatever its size and over
// every protocol, and is not compressed, though the client would take that.
func TestEventsOneByOne(t *testing.T) {
	for name, client := range map[string]func(*testing.T) *http.Client{"HTTP/1.1": plainClient, "HTTP/2.0": http2Client} {
		for _, size := range []int{20, 5_000, 40_000} {
			t.Run(fmt.Sprintf("%s %d bytes", name, size), func(t *testing.T) {
				l := &lockstep{size: size, events: 100, seen: make(chan struct{}), gone: t.Context().Done()}
				r, err := http.NewRequestWithContext(within(t), http.MethodPost, behind(t, l.ServeHTTP)+"/v1/chat/completions", strings.NewReader(chatBody))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Accept-Encoding", "gzip")
				answer, err := client(t).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = answer.Body.Close() }() // it was read to its end
				if answer.Proto != name || answer.Header.Get("Content-Encoding") != "" {
					t.Errorf("%s, Content-Encoding %q", answer.Proto, answer.Header.Get("Content-Encoding"))
				}
				from, event := bufio.NewReader(answer.Body), l.event()
				got := make([]byte, len(event))
				var delays []time.Duration
				for range l.events {
					if _, err := io.ReadFull(from, got); err != nil || string(got) != string(event) {
						t.Fatalf("event %d: %.50q (%v)", len(delays), got, err)
					}
					delays = append(delays, time.Since(l.sent))
					l.seen <- struct{}{}
				}
				if rest, err := io.ReadAll(from); err != nil || string(rest) != "data: [DONE]\n\n" {
					t.Errorf("the end: %q (%v)", rest, err)
				}
				report(t, delays)
			})
		}
	}
}

// TestPartsOneByOne is the same for SageMaker's event stream.
func TestPartsOneByOne(t *testing.T) {
	l := &lockstep{size: 200, events: 100, seen: make(chan struct{}), gone: t.Context().Done()}
	client := runtime(behind(t, l.ServeHTTP), aws.AnonymousCredentials{})
	out, err := client.InvokeEndpointWithResponseStream(within(t), &sagemakerruntime.InvokeEndpointWithResponseStreamInput{
		EndpointName: aws.String(demo), Body: invocation(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	stream := out.GetStream()
	defer func() { _ = stream.Close() }() // it was read to its end
	var delays []time.Duration
	for have := 0; len(delays) < l.events; {
		event, ok := <-stream.Events()
		if !ok {
			t.Fatalf("the stream ended after %d events: %v", len(delays), stream.Err())
		}
		part, ok := event.(*types.ResponseStreamMemberPayloadPart)
		if !ok {
			t.Fatalf("an event of type %T", event)
		}
		if have += len(part.Value.Bytes); have == len(l.event())*(len(delays)+1) {
			delays = append(delays, time.Since(l.sent))
			l.seen <- struct{}{}
		}
	}
	report(t, delays)
}

// TestHTTP2: the SDK over HTTP/2: whole, streamed, broken, aborted, and many
// streams on one connection.
func TestHTTP2(t *testing.T) {
	c := start(t)
	carrier := option.WithHTTPClient(http2Client(t))
	sdk := func(base string) openai.Client {
		return openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("any"), option.WithMaxRetries(0), carrier)
	}
	client := sdk(c.url + "/v1")
	whole, err := client.Chat.Completions.New(within(t), ask(demo, 9))
	if err != nil {
		t.Fatal(err)
	}
	var streams []*ssestream.Stream[openai.ChatCompletionChunk]
	for range 50 {
		streams = append(streams, client.Chat.Completions.NewStreaming(within(t), ask(demo, 9)))
	}
	for _, stream := range streams {
		var text strings.Builder
		for stream.Next() {
			text.WriteString(stream.Current().Choices[0].Delta.Content)
		}
		if stream.Err() != nil || text.String() != whole.Choices[0].Message.Content {
			t.Errorf("the stream says %q (%v), the whole answer %q", text.String(), stream.Err(), whole.Choices[0].Message.Content)
		}
	}
	ill := sdk(c.openai(dying))
	broken := ill.Chat.Completions.NewStreaming(within(t), ask(dying, 20))
	for broken.Next() { // until it breaks
	}
	if _, ok := errors.AsType[*ssestream.StreamError](broken.Err()); !ok {
		t.Errorf("the server died, the stream ended with %v", broken.Err())
	}
	left := client.Chat.Completions.NewStreaming(within(t), ask(demo, endless))
	if !left.Next() {
		t.Fatal(left.Err())
	}
	_ = left.Close() // the abort
	eventually(t, "the servers are idle after an abort", func() bool { n, _ := c.load(); return n == 0 })
}
