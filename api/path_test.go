package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy"
)

// memoryConn is a connection that brings the same bytes n times, each as soon as
// it is read, and takes what is written.
type memoryConn struct {
	bytes []byte
	n     int
	at    int
	over  chan struct{} // closed by Close; nil: nobody waits
}

func (c *memoryConn) Read(p []byte) (int, error) {
	if c.at == len(c.bytes) {
		c.at, c.n = 0, c.n-1
	}
	if c.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.bytes[c.at:])
	c.at += n
	return n, nil
}

func (c *memoryConn) Close() error {
	if c.over != nil {
		close(c.over)
	}
	return nil
}

func (c *memoryConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *memoryConn) LocalAddr() net.Addr              { return nil }
func (c *memoryConn) RemoteAddr() net.Addr             { return nil }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

// oneConn accepts c, and fails then.
type oneConn struct{ c net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	c := l.c
	l.c = nil
	if c == nil {
		return nil, errors.New("no more")
	}
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return nil }

// BenchmarkPath is all that this router does for a request but for system calls
// and telemetry: from the first byte of its head to the last one of the answer.
func BenchmarkPath(b *testing.B) {
	answer := "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nServer: uvicorn\r\nContent-Length: 1024\r\n" +
		"Content-Type: application/json\r\n\r\n" + string(bytes.Repeat([]byte("a"), 1024))
	for _, form := range []int{1024, 0} {
		epoch, err := fleet(b, []string{"llama"}, "http://backend:1").Apply(routing.Change{PutEndpoints: []routing.Endpoint{{
			Name: "llama", Variants: []routing.Variant{{Name: "blue", Weight: 1, Policy: routing.Policy{
				Strategy: routing.PrefixAware, PrefixLength: form, ConcurrencyThreshold: 64,
			}}},
		}}})
		if err != nil {
			b.Fatal(err)
		}
		for _, kib := range []int{4, 32, 200} {
			body := decisionBody(kib << 10)
			request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: router:8080\r\nUser-Agent: OpenAI/Python 2.8.0\r\n"+
				"Accept: application/json\r\nAuthorization: Bearer sk-0123456789\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			b.Run(fmt.Sprintf("%d/%dK", form, kib), func(b *testing.B) {
				picker := routing.NewPicker(routing.PickerConfig{})
				picker.SetEpoch(epoch)
				dial := func(context.Context, string, string) (net.Conn, error) {
					return &memoryConn{bytes: []byte(answer), n: b.N + 1}, nil
				}
				p := proxy.New(proxy.Default(), proxy.Deps{Picker: picker, Dial: dial, Log: slog.New(slog.DiscardHandler)})
				defer p.Close()
				a, err := New(Default(), Deps{Epoch: picker.Epoch, Counts: func(uint64) bool { return false }, Proxy: p, Log: slog.New(slog.DiscardHandler), RouterName: "r1"})
				if err != nil {
					b.Fatal(err)
				}
				served := 0
				srv := a.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					a.ServeHTTP(w, r)
					served++
				}))
				b.ReportAllocs()
				b.ResetTimer()
				client := &memoryConn{bytes: request, n: b.N, over: make(chan struct{})}
				_ = srv.Serve(&oneConn{client}) // that there are no more
				<-client.over
				if err := srv.Shutdown(b.Context()); err != nil {
					b.Fatal(err)
				}
				if served != b.N {
					b.Fatalf("served %d of %d requests", served, b.N)
				}
			})
		}
	}
}
