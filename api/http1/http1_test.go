package http1

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain checks that nothing is left running.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		before += 2 // the fuzzer's own
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && code == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%d goroutines before, now:\n%s\n", before, stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// counted counts the reads and writes on a listener's connections.
type counted struct {
	net.Listener
	writes atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	nc, err := c.Listener.Accept()
	return countedConn{nc, c}, err
}

type countedConn struct {
	net.Conn
	c *counted
}

func (c countedConn) Write(p []byte) (int, error) {
	c.c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestOneWrite: a head and a piece of the body go out in one call, and so does
// each piece after that.
func TestOneWrite(t *testing.T) {
	for _, size := range []int{10, smallBody, smallBody + 1, 30 << 10} {
		piece := bytes.Repeat([]byte("x"), size)
		l := &counted{}
		var counts []int64
		s := New(configFor(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = w.Write(piece)
				_ = http.NewResponseController(w).Flush()
				counts = append(counts, l.writes.Load())
			}
		})))
		var err error
		if l.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		c := dial(t, l.Addr().String())
		send(t, c, get)
		if _, body := receive(t, bufio.NewReader(c)); body != strings.Repeat(string(piece), 3) {
			t.Errorf("size %d: a body of %d bytes", size, len(body))
		}
		_ = s.Close()
		_ = within(t, 5*time.Second, served, "the end of Serve")
		if fmt.Sprint(counts, l.writes.Load()) != "[1 2 3] 4" {
			t.Errorf("size %d: writes %v, %d in all", size, counts, l.writes.Load())
		}
	}
}

// TestGathered: large pieces on TCP and on connections that cannot gather.
func TestGathered(t *testing.T) {
	for _, size := range []int{5000, 30 << 10, joinSize, 1 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "small ")
			_, _ = w.Write(want)
			_, _ = io.WriteString(w, " end")
		}))
		c := dial(t, addr)
		send(t, c, get)
		if _, body := receive(t, bufio.NewReader(c)); body != "small "+string(want)+" end" {
			t.Errorf("TCP, size %d: a body of %d bytes", size, len(body))
		}
	}
}

// TestContinue: the client is asked for the body when the handler reads it,
// and only then.
func TestContinue(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			addr := kind.start(t, http.HandlerFunc(handler))
			c := dial(t, addr)
			send(t, c, head)
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != http.StatusContinue {
				t.Fatalf("%v, %v", res, err)
			}
			send(t, c, "hello")
			if _, body := receive(t, in); !strings.Contains(body, `body 5 "hello" false`) {
				t.Errorf("body %q", body)
			}

			c = dial(t, addr)
			send(t, c, strings.Replace(head, "/", "/early", 1))
			in = bufio.NewReader(c)
			if res, body := receive(t, in); res.StatusCode != http.StatusOK || !res.Close || body != "early" {
				t.Errorf("%v, body %q", res, body)
			}
			if kind.name == "net/http" {
				return // it waits for the body
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

// TestDuplex: pieces of the body and of the answer alternate.
func TestDuplex(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			addr := kind.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				_ = control.EnableFullDuplex()
				_ = control.Flush()
				var b [16]byte
				for {
					n, err := r.Body.Read(b[:])
					if n > 0 {
						_, _ = w.Write(bytes.ToUpper(b[:n]))
						_ = control.Flush()
					}
					if err != nil {
						return
					}
				}
			}))
			c := dial(t, addr)
			in := bufio.NewReader(c)
			for range 2 { // the connection is kept
				send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, word := range []string{"one", "two"} {
					send(t, c, fmt.Sprintf("%x\r\n%s\r\n", len(word), word))
					got := make([]byte, len(word))
					if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != strings.ToUpper(word) {
						t.Fatalf("got %q, %v", got, err)
					}
				}
				send(t, c, "0\r\n\r\n")
				if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
					t.Errorf("then %q, %v", rest, err)
				}
			}
		})
	}
}

// TestDuplexUnread: what a handler in full duplex has left of a body is read
// after the answer, if it is little.
func TestDuplexUnread(t *testing.T) {
	addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.WriteString(w, "early")
	}))
	for _, c := range []struct {
		length int
		want   string
	}{{1000, "200 200"}, {drainMost, "200"}} {
		raw := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", c.length, strings.Repeat("b", c.length))
		if got := statuses(answers(talk(t, addr, raw+sentinel))); got != c.want {
			t.Errorf("%d bytes left: statuses %q, want %q", c.length, got, c.want)
		}
	}
}

// TestStalledBody: an early answer does not wait long for a body that the
// handler does not want.
func TestStalledBody(t *testing.T) {
	addr := kinds[1].start(t, http.HandlerFunc(handler))
	c := dial(t, addr)
	send(t, c, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe")
	if res, body := receive(t, bufio.NewReader(c)); body != "early" || !res.Close {
		t.Errorf("%v, body %q", res, body)
	}
}

// TestClientGone: a request's context ends when the client leaves, whatever
// the request is at.
func TestClientGone(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		stream    bool
		half      bool
	}{
		{"before the answer", get, false, false},
		{"half closed", get, false, true},
		{"in a stream", get, true, false},
		{"after a body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", true, false},
		{"in a body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			served, left := make(chan struct{}), make(chan time.Time, 1)
			addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				if c.stream {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = control.Flush()
				}
				_ = control.SetReadDeadline(time.Now().Add(-time.Second)) // of no concern to whom watches the client
				if strings.HasSuffix(c.raw, "hell") {
					_ = control.SetReadDeadline(time.Time{})
					close(served)
					_, _ = io.Copy(io.Discard, r.Body)
				} else {
					close(served)
				}
				<-ctx.Done()
				left <- time.Now()
			}))
			conn := dial(t, addr)
			send(t, conn, c.raw)
			within(t, 5*time.Second, served, "the request")
			time.Sleep(10 * time.Millisecond) // the client leaves while it is watched
			began := time.Now()
			if c.half {
				_ = conn.CloseWrite()
			} else {
				_ = conn.Close()
			}
			if took := within(t, 5*time.Second, left, "the end of the context").Sub(began); took > 100*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestWatchedPipeline: what a client sends while it is watched is its next
// request, and the connection is read in order.
func TestWatchedPipeline(t *testing.T) {
	release := make(chan struct{})
	addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			t.Error("the context has ended")
		}
		handler(w, r)
	}))
	c := dial(t, addr)
	in := bufio.NewReader(c)
	for range 5 {
		send(t, c, "GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
		time.Sleep(5 * time.Millisecond) // it is watched by now; either way, the answers are the same
		send(t, c, "POST /second HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok")
		release <- struct{}{}
		if _, body := receive(t, in); !strings.Contains(body, "GET /first") {
			t.Errorf("first answer %q", body)
		}
		release <- struct{}{}
		if _, body := receive(t, in); !strings.Contains(body, "POST /second") || !strings.Contains(body, `body 2 "ok"`) {
			t.Errorf("second answer %q", body)
		}
	}
}

// TestWatchStress has requests end just when they begin to be watched.
func TestWatchStress(t *testing.T) {
	cfg := configFor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t := time.NewTimer(time.Duration(len(body)) * 10 * time.Microsecond)
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
		_, _ = w.Write(body)
	}))
	cfg.Watch = 100 * time.Microsecond
	addr := serve(t, New(cfg))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := dial(t, addr)
			in := bufio.NewReader(c)
			for i := range 200 {
				body := strings.Repeat("b", i%20)
				send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				if _, got := receive(t, in); got != body {
					t.Errorf("got %q for %q", got, body)
				}
			}
		})
	}
	wg.Wait()
}
