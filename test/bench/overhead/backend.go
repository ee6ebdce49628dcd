package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// backendPorts is how many model servers the backend process plays.
	backendPorts  = 4
	backendBuffer = 64 << 10
)

// backend is the model server of the benchmark: a goroutine for each connection, hand-written
// heads, everything prepared, so that it costs as little as possible beside the proxies.
type backend struct {
	unary   []byte
	conns   sync.WaitGroup
	mu      sync.Mutex // guards streams
	streams map[int]stream
}

// stream is a prepared event stream, one piece to write for each event; the first starts with
// the response head.
type stream [][]byte

// serveBackend listens on kernel-chosen ports, prints their addresses on one line of out and
// serves until in ends, which also happens when the process that started it dies.
func serveBackend(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b := &backend{unary: unaryResponse(), streams: map[int]stream{}}
	var addrs []string
	for range backendPorts {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // closed a second time when the context ends
		addrs = append(addrs, l.Addr().String())
		context.AfterFunc(ctx, func() { _ = l.Close() })
		b.conns.Go(func() { b.accept(ctx, l) })
	}
	if _, err := fmt.Fprintln(out, strings.Join(addrs, " ")); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	stop()
	b.conns.Wait()
	return err
}

func (b *backend) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b.conns.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			defer c.Close() //nolint:errcheck // nothing can be done about it
			b.serve(c)
		})
	}
}

// serve answers requests until the connection breaks or the client stops speaking HTTP.
func (b *backend) serve(c net.Conn) {
	in := newMessages(c, backendBuffer)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		h, err := in.head()
		if err != nil {
			return
		}
		get := strings.HasPrefix(string(h.start), "GET ")
		want, closing := wanted(h), h.close
		if err := in.body(h, func([]byte) {}); err != nil {
			return
		}
		switch {
		case get:
			_, err = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"))
		case want.events > 0:
			err = b.stream(want.events).send(c, timer, want.pause)
		default:
			_, err = c.Write(b.unary)
		}
		if err != nil || closing {
			return
		}
	}
}

// wanted reads the two fields by which the client orders its answer.
func wanted(h head) answer {
	events, err := strconv.Atoi(string(h.field(eventsField)))
	if err != nil || events < 0 {
		return answer{}
	}
	pause, _ := strconv.Atoi(string(h.field(pauseField))) // no number is no pause
	return answer{events: events, pause: time.Duration(max(pause, 0)) * time.Microsecond}
}

func unaryResponse() []byte {
	body := jsonAnswer()
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func (b *backend) stream(events int) stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.streams[events]
	if !ok {
		s = newStream(events)
		b.streams[events] = s
	}
	return s
}

func newStream(n int) stream {
	var s stream
	for i, event := range streamAnswer(n) {
		var piece []byte
		if i == 0 {
			piece = append(piece, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"+
				"Transfer-Encoding: chunked\r\n\r\n"...)
		}
		piece = fmt.Appendf(piece, "%x\r\n%s\r\n", len(event), event)
		if i == n-1 {
			piece = append(piece, "0\r\n\r\n"...)
		}
		s = append(s, piece)
	}
	return s
}

// send writes one piece per event, the first at once and the others at a fixed beat.
func (s stream) send(c net.Conn, timer *time.Timer, pause time.Duration) error {
	due := time.Now()
	for i, piece := range s {
		if i > 0 && pause > 0 {
			due = due.Add(pause)
			timer.Reset(time.Until(due))
			<-timer.C
		}
		if _, err := c.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// readAddrs reads the line that serveBackend prints.
func readAddrs(line string) ([]string, error) {
	addrs := strings.Fields(line)
	if len(addrs) != backendPorts {
		return nil, errors.New("the backend process did not print its addresses")
	}
	return addrs, nil
}
