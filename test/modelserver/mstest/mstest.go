// Package mstest runs simulated model servers for tests, on real sockets.
package mstest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/warmring/warmring/test/modelserver"
)

// Running is a model server that listens. It stops with its test.
type Running struct {
	URL    string // http://127.0.0.1:port
	Addr   string // 127.0.0.1:port
	Server *modelserver.Server
	stop   func()
}

// Start runs a server on a free port of the loopback interface.
func Start(t testing.TB, cfg modelserver.Config) *Running {
	t.Helper()
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return StartOn(t, cfg, ln)
}

// StartOn is Start on a listener of the caller, which the server closes: a
// restart on an old address, or a network that is simulated too.
func StartOn(t testing.TB, cfg modelserver.Config, ln net.Listener) *Running {
	t.Helper()
	s, err := modelserver.New(cfg)
	if err != nil {
		_ = ln.Close() // the test is over
		t.Fatal(err)
	}
	// The server outlives t.Context, so that clients can stop before it does.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, ln) }()
	r := &Running{Addr: ln.Addr().String(), URL: "http://" + ln.Addr().String(), Server: s}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("model server %s: %v", cfg.ID, err)
		}
	})
	t.Cleanup(r.Stop)
	return r
}

// Stop ends the server as a crash would: its connections are cut. It returns
// when the last goroutine has ended; a second Stop does nothing.
func (r *Running) Stop() { r.stop() }
