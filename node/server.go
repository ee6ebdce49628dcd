package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// httpServer is what http.Server and http1.Server have in common.
type httpServer interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// server is an HTTP server whose end can be waited for, handlers included: http.Server.Close does not wait for them.
type server struct {
	name   string
	listen string // where it is to listen
	http   httpServer
	addr   net.Addr // set before it serves

	mu      sync.Mutex // guards running and closed
	running int
	closed  bool
	idle    chan struct{} // closed when closed and nothing runs
}

// newServer makes a server from what build makes of a handler.
func newServer(name, listen string, inner http.Handler, build func(http.Handler) httpServer) *server {
	s := &server{name: name, listen: listen, idle: make(chan struct{})}
	s.http = build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		defer s.leave()
		inner.ServeHTTP(w, r)
	}))
	return s
}

func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running++
	}
	return !s.closed
}

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.closed {
		close(s.idle)
	}
}

// serve blocks until the server is stopped or its listener fails.
func (s *server) serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s server: %w", s.name, err)
}

// stop lets requests finish until ctx ends, cuts off the rest, and waits for the handlers of those too.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("%s server: requests were cut off: %w", s.name, err), s.http.Close())
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.running == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select { // the contexts of what still runs are cancelled, so this is short
	case <-s.idle:
	case <-time.After(closeLimit):
		err = errors.Join(err, fmt.Errorf("%s server: handlers do not end", s.name))
	}
	return err
}
