package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/test/modelserver"
)

// wire is a network of pipes for one bubble.
type wire struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]*pipeListener
}

// pipeListener accepts what dial put on the other end.
type pipeListener struct {
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.address) }

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }

func (w *wire) listen(_ context.Context, _, address string) (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &pipeListener{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	w.listeners[address] = l
	return l, nil
}

func (w *wire) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[address]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody listens on " + address)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A node in a bubble: no real socket, no real time, and at the end no goroutine, or the bubble would not end.
func TestANodeTakesAllFromItsWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &wire{listeners: map[string]*pipeListener{}}
		model, err := modelserver.New(modelserver.Default())
		if err != nil {
			t.Fatal(err)
		}
		modelListener, err := network.listen(t.Context(), "tcp", "10.0.0.9:80")
		if err != nil {
			t.Fatal(err)
		}
		cfg := testConfig("http://10.0.0.9:80")
		cfg.API.Listen, cfg.Admin.Listen = "127.0.0.1:8080", "127.0.0.1:9080"
		cfg.Shutdown.DrainDelay = time.Hour // costs nothing here
		world := World{Listen: network.listen, Dial: network.dial, Now: time.Now, Random: strings.NewReader(strings.Repeat("salt", 8))}
		n, err := New(cfg, world, Options{})
		if err != nil {
			t.Fatal(err)
		}
		modelCtx, stopModel := context.WithCancel(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- model.Run(modelCtx, modelListener) }()
		go func() { done <- n.Run(ctx) }()
		<-n.Listening()

		client := http.Client{Transport: &http.Transport{DialContext: network.dial}}
		ask := func(method, path, body string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.APIAddr()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(text)
		}
		if code, text := ask("POST", "/v1/completions", `{"model":"demo","prompt":"hello","max_tokens":8}`); code != http.StatusOK {
			t.Errorf("status %d: %s", code, text)
		}
		stop()
		synctest.Wait()
		if code, _ := ask("GET", "/readyz", ""); code != http.StatusServiceUnavailable {
			t.Errorf("readyz answers %d while leaving", code)
		}
		began := time.Now()
		client.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("the end took %s", took)
		}
		stopModel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
