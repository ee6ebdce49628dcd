package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestDeadlines: the handler's hold for the body and for the answer.
func TestDeadlines(t *testing.T) {
	read, wrote := make(chan error, 1), make(chan error, 1)
	addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
		_ = control.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		large := make([]byte, 1<<20)
		for err = nil; err == nil; {
			_, err = w.Write(large)
		}
		wrote <- err
	}))
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe")
	if err := within(t, 5*time.Second, read, "the read"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading: %v", err)
	}
	if err := within(t, 5*time.Second, wrote, "the write"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing: %v", err)
	}
}

// TestDeadlineWakes: a deadline set while the body is read ends that read.
func TestDeadlineWakes(t *testing.T) {
	read := make(chan error, 1)
	addr := kinds[1].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			_, err := r.Body.Read(make([]byte, 1))
			read <- err
		}()
		time.Sleep(5 * time.Millisecond) // most likely it reads by now; either way, the deadline holds
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading: %v", err)
		}
	}))
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
	if res, _ := receive(t, bufio.NewReader(c)); !res.Close {
		t.Errorf("%v", res)
	}
}

// TestPanic: the client gets nothing, and the log one line.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	cfg := configFor(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "never")
		panic("a bug")
	}))
	cfg.ErrorLog = slog.New(slog.NewTextHandler(&log, nil))
	s := New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if got := talk(t, l.Addr().String(), get); got != "" {
		t.Errorf("answer %q", got)
	}
	_ = s.Close()
	_ = within(t, 5*time.Second, served, "the end of Serve")
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "TestPanic") {
		t.Errorf("%d lines of log: %s", n, log.String())
	}
}

// TestSlowHead: a head that takes too long ends the connection, as does none.
func TestSlowHead(t *testing.T) {
	for _, raw := range []string{"", "GET / HTTP/1.1\r\n", get + "GET /"} {
		cfg := configFor(http.HandlerFunc(handler))
		cfg.ReadHeaderTimeout = 30 * time.Millisecond
		c := dial(t, serve(t, New(cfg)))
		send(t, c, raw)
		began := time.Now()
		go func() {
			for range 100 { // keeps the connection busy; fails when it is closed
				time.Sleep(5 * time.Millisecond)
				if _, err := io.WriteString(c, "X"); err != nil || raw == "" {
					return
				}
			}
		}()
		_, _ = io.Copy(io.Discard, c)
		if took := time.Since(began); took > 400*time.Millisecond {
			t.Errorf("%q: closed after %v", raw, took)
		}
	}
}

// TestIdle: an idle connection is closed in its time.
func TestIdle(t *testing.T) {
	cfg := configFor(http.HandlerFunc(handler))
	cfg.IdleTimeout = 20 * time.Millisecond
	c := dial(t, serve(t, New(cfg)))
	send(t, c, get)
	in := bufio.NewReader(c)
	receive(t, in)
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestLinger: a client that still sends gets to read why it should not.
func TestLinger(t *testing.T) {
	addr := kinds[1].start(t, http.HandlerFunc(handler))
	for _, raw := range []string{
		"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 1<<20),
		"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n" + strings.Repeat("x", 4<<20),
	} {
		got := answers(talk(t, addr, raw))
		if s := statuses(got); s != "400" && s != "200" {
			t.Errorf("%.30q: %q", raw, got)
		}
	}
}
