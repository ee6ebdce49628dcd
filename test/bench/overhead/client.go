package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	clientBuffer = 64 << 10
	// slowest is how long after its slice a request may still take before it counts as failed.
	slowest = 5 * time.Second
	// maxFailures ends one connection's slice early: a target that fails at once must not turn
	// the load into a storm of connects.
	maxFailures = 20
)

var errWrongBody = errors.New("the body is not what the server sent")

// load is one kind of traffic.
type load struct {
	name     string
	bodySize int // of a request, bytes
	conns    int
	rate     float64 // requests per second over all connections; 0 asks for a closed loop
	answer   answer
	stretch  float64 // how many usual slices long a slice of this load is; 0 is 1
}

// script is a load made ready to send: complete requests, and the body every answer must have.
type script struct {
	load
	requests [][]byte
	want     []byte
}

func newScript(l load) (script, error) {
	s := script{load: l}
	var err error
	if s.requests, err = requests(l.bodySize, l.answer); err != nil {
		return script{}, err
	}
	if l.answer.events > 0 {
		s.want = bytes.Join(streamAnswer(l.answer.events), nil)
	} else {
		s.want = jsonAnswer()
	}
	return s, nil
}

// client is one keep-alive connection to one target, used by one goroutine.
type client struct {
	addr string
	conn net.Conn
	in   *messages
	take func([]byte) // c.piece, bound once

	want      []byte
	got       int
	wrong     bool
	firstBody time.Time
	onFirst   func() // called when the first byte of a body arrives; may be nil
}

func dial(ctx context.Context, addr string, buffer int) (*client, error) {
	c := &client{addr: addr}
	c.take = c.piece
	c.in = newMessages(nil, buffer)
	return c, c.redial(ctx)
}

func (c *client) redial(ctx context.Context) error {
	c.close()
	conn, err := (&net.Dialer{Timeout: slowest}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn = conn
	c.in.src, c.in.r, c.in.w = conn, 0, 0
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// piece checks one part of a body against the expected bytes at its place.
func (c *client) piece(p []byte) {
	if c.got == 0 {
		c.firstBody = time.Now()
		if c.onFirst != nil {
			c.onFirst()
		}
	}
	if end := c.got + len(p); end > len(c.want) || !bytes.Equal(p, c.want[c.got:end]) {
		c.wrong = true
	}
	c.got += len(p)
}

// do sends one request and reads its answer to the end, which must be a 200 whose body is want,
// byte for byte. It returns when the first byte of the body came.
func (c *client) do(request, want []byte) (time.Time, error) {
	c.want, c.got, c.wrong = want, 0, false
	if _, err := c.conn.Write(request); err != nil {
		return time.Time{}, err
	}
	h, err := c.in.head()
	if err != nil {
		return time.Time{}, fmt.Errorf("before the answer: %w", err)
	}
	if !bytes.HasPrefix(h.start, []byte("HTTP/1.1 200 ")) {
		return time.Time{}, fmt.Errorf("answer %q", h.start)
	}
	closing := h.close
	if err := c.in.body(h, c.take); err != nil {
		return time.Time{}, fmt.Errorf("after %d of %d bytes of the body: %w", c.got, len(want), err)
	}
	if c.wrong || c.got != len(want) {
		return time.Time{}, fmt.Errorf("%w: %d bytes instead of %d", errWrongBody, c.got, len(want))
	}
	if closing {
		c.close()
	}
	return c.firstBody, nil
}

// outcome is what the connections of one target did in one slice.
type outcome struct {
	latencies []time.Duration // sorted
	failed    int
	failure   error // one example
	elapsed   time.Duration
}

// crew is the connections of one target under one load.
type crew struct {
	script  script
	clients []*client
	parts   []outcome // one for each client, their memory used again
}

func newCrew(ctx context.Context, s script, addrs []string) (*crew, error) {
	w := &crew{script: s, parts: make([]outcome, s.conns)}
	for i := range s.conns {
		c, err := dial(ctx, addrs[i%len(addrs)], clientBuffer)
		if err != nil {
			w.close()
			return nil, err
		}
		w.clients = append(w.clients, c)
	}
	return w, nil
}

func (w *crew) close() {
	for _, c := range w.clients {
		c.close()
	}
}

// work sends the load for one slice. Requests under way at its end are waited for and count.
func (w *crew) work(ctx context.Context, slice time.Duration) outcome {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range w.clients {
		wg.Go(func() { w.run(ctx, i, start, slice) })
	}
	wg.Wait()
	total := outcome{elapsed: time.Since(start)}
	for _, p := range w.parts {
		total.latencies = append(total.latencies, p.latencies...)
		total.failed += p.failed
		if total.failure == nil {
			total.failure = p.failure
		}
	}
	slices.Sort(total.latencies)
	return total
}

// run is one connection's slice. Its first request is delayed by its share of the beat, so that
// paced connections and streams do not march in step.
//
// A latency counts from when the request was due if the connection was still busy then, so a
// slow answer is charged for those it delays; otherwise from the write, so the lateness of the
// generator's own timer is charged to nobody.
func (w *crew) run(ctx context.Context, i int, start time.Time, slice time.Duration) {
	part, c := &w.parts[i], w.clients[i]
	*part = outcome{latencies: part.latencies[:0]}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	beat := w.script.beat()
	due := start.Add(w.script.offset(i))
	end := start.Add(slice)
	for n := i; ctx.Err() == nil && part.failed < maxFailures; n++ {
		begin := time.Now()
		if wait := due.Sub(begin); wait > 0 {
			timer.Reset(wait)
			<-timer.C
			begin = time.Now()
		} else if beat > 0 {
			begin = due
		}
		if !begin.Before(end) {
			return
		}
		there, err := w.once(ctx, c, n, end)
		if err != nil {
			part.failed++
			part.failure = err
			c.close()
		} else {
			part.latencies = append(part.latencies, there.Sub(begin))
		}
		due = due.Add(beat)
	}
}

// once returns when the answer was there: all of a document, or the first event of a stream.
func (w *crew) once(ctx context.Context, c *client, n int, end time.Time) (time.Time, error) {
	if c.conn == nil {
		if err := c.redial(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if err := c.conn.SetDeadline(end.Add(slowest)); err != nil {
		return time.Time{}, err
	}
	// 5 and 32 have no common factor: a connection visits every conversation.
	first, err := c.do(w.script.requests[n*5%len(w.script.requests)], w.script.want)
	if w.script.answer.events == 0 {
		return time.Now(), err
	}
	return first, err
}

// beat is the time between two requests of one connection, 0 in a closed loop.
func (s script) beat() time.Duration {
	if s.rate == 0 {
		return 0
	}
	return time.Duration(float64(s.conns) / s.rate * float64(time.Second))
}

// offset spreads the connections' first requests over a beat, or over the length of a stream.
func (s script) offset(i int) time.Duration {
	length := s.beat()
	if length == 0 {
		length = time.Duration(max(0, s.answer.events-1)) * s.answer.pause
	}
	return length * time.Duration(i) / time.Duration(s.conns)
}
