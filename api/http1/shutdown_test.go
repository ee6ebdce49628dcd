package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// running is a server with what Serve will return.
type running struct {
	*Server
	addr   string
	served chan error
}

func run(t *testing.T, cfg Config) running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := running{New(cfg), l.Addr().String(), make(chan error, 1)}
	go func() { r.served <- r.Serve(l) }()
	return r
}

// ended waits for Serve's end.
func (r running) ended(t *testing.T) {
	t.Helper()
	if err := within(t, 5*time.Second, r.served, "the end of Serve"); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// TestShutdown: idle connections end at once, active ones after their request.
func TestShutdown(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := run(t, configFor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "one ")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/quick" {
			started <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "end")
	})))
	stream, late, unused := dial(t, s.addr), dial(t, s.addr), dial(t, s.addr)
	send(t, stream, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
	<-started
	send(t, late, "GET /late HTTP/1.1\r\nHost: h\r\n\r\n")
	<-started
	rest := dial(t, s.addr)
	send(t, rest, "GET /quick HTTP/1.1\r\nHost: h\r\n\r\n")
	restIn := bufio.NewReader(rest)
	receive(t, restIn)

	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	if _, err := restIn.ReadByte(); err != io.EOF {
		t.Errorf("idle connection: %v", err)
	}
	if _, err := unused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("unused connection: %v", err)
	}
	if c, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("it still listens")
		_ = c.Close()
	}
	select {
	case err := <-stopped:
		t.Errorf("Shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if _, body := receive(t, bufio.NewReader(stream)); body != "one end" {
		t.Errorf("stream %q", body)
	}
	if res, body := receive(t, bufio.NewReader(late)); body != "end" || !res.Close {
		t.Errorf("late %v, %q", res, body)
	}
	if err := within(t, 5*time.Second, stopped, "Shutdown"); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	s.ended(t)
	if err := s.Serve(&deaf{}); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("served again: %v", err)
	}
}

// deaf is a listener that nobody may use.
type deaf struct{ net.Listener }

func (*deaf) Close() error { return nil }

// TestClose: Close cuts off what Shutdown has waited for in vain.
func TestClose(t *testing.T) {
	for _, watch := range []time.Duration{0, time.Hour} {
		started := make(chan struct{})
		cfg := configFor(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
		}))
		cfg.Watch = watch
		s := run(t, cfg)
		send(t, dial(t, s.addr), get)
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		cancel()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.ended(t)
	}
}

// failing is a listener that fails.
type failing struct{ net.Listener }

func (failing) Accept() (net.Conn, error) { return nil, errors.New("no more") }

// TestListenerFails: Serve returns the reason.
func TestListenerFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(configFor(http.HandlerFunc(handler)))
	if err := s.Serve(failing{l}); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("got %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// withHTTP2 adds a server for HTTP/2 to cfg.
func withHTTP2(cfg Config) Config {
	var p http.Protocols
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	cfg.HTTP2 = &http.Server{Handler: cfg.Handler, Protocols: &p, ReadHeaderTimeout: 5 * time.Second}
	return cfg
}

// certificate is net/http/httptest's own.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}, s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// TestProtocols: HTTP/1.1 and HTTP/2, with TLS and without, on one listener
// each, and their orderly end.
func TestProtocols(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	for _, c := range []struct {
		name          string
		secure, http2 bool
		want          string
	}{
		{"clear text", false, false, "HTTP/1.1 secure false"},
		{"prior knowledge", false, true, "HTTP/2.0 secure false"},
		{"TLS", true, false, "HTTP/1.1 secure true"},
		{"ALPN", true, true, "HTTP/2.0 secure true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := withHTTP2(configFor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				secure := "false"
				if r.TLS != nil && r.TLS.HandshakeComplete {
					secure = "true"
				}
				if r.RemoteAddr == "" || r.Context().Value(http.LocalAddrContextKey) == nil {
					t.Error("no addresses")
				}
				_, _ = io.WriteString(w, r.Proto+" secure "+secure+" ")
				_ = http.NewResponseController(w).Flush()
				_, _ = w.Write(body)
			})))
			url := "http://"
			if c.secure {
				cfg.TLS, url = serverTLS, "https://"
			}
			s := run(t, cfg)
			var p http.Protocols
			p.SetHTTP1(!c.http2)
			p.SetHTTP2(c.http2 && c.secure)
			p.SetUnencryptedHTTP2(c.http2 && !c.secure)
			transport := &http.Transport{TLSClientConfig: clientTLS.Clone(), Protocols: &p}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			body := strings.Repeat("b", 100_000)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 3 {
						res, err := client.Post(url+s.addr, "text/plain", strings.NewReader(body))
						if err != nil {
							t.Error(err)
							return
						}
						got, err := io.ReadAll(res.Body)
						_ = res.Body.Close()
						if err != nil || string(got) != c.want+" "+body {
							t.Errorf("%.40q (%d bytes), %v", got, len(got), err)
						}
					}
				})
			}
			wg.Wait()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			s.ended(t)
		})
	}
}

// TestTLSClients: one that speaks no TLS is told, one that leaves is noticed.
func TestTLSClients(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	left := make(chan struct{})
	cfg := configFor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	cfg.TLS = serverTLS
	addr := serve(t, New(cfg))
	if got := talk(t, addr, get); !strings.Contains(got, "400 Bad Request") {
		t.Errorf("clear text: %q", got)
	}
	clientTLS.ServerName = "example.com"
	c := tls.Client(dial(t, addr), clientTLS)
	send(t, c, get)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	within(t, time.Second, left, "the end of the context")
}

// TestShutdownInHandshake: a client that does not go on with its handshake
// holds up the end for a second, no longer.
func TestShutdownInHandshake(t *testing.T) {
	serverTLS, _ := certificate(t)
	cfg := configFor(http.HandlerFunc(handler))
	cfg.TLS = serverTLS
	s := run(t, cfg)
	send(t, dial(t, s.addr), "\x16\x03\x01")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	s.ended(t)
}

// pipes is a listener of connections in memory.
type pipes struct{ *handover }

func (p pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.give(theirs)
	return ours
}

// TestBubble runs a server in virtual time: its time-outs take no time, and
// nothing of it is left in the end.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := configFor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "one ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "two")
		}))
		cfg.IdleTimeout = time.Minute
		s := New(cfg)
		l := pipes{newHandover(&net.TCPAddr{})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()

		c := l.dial()
		began := time.Now()
		send(t, c, get)
		in := bufio.NewReader(c)
		if _, body := receive(t, in); body != "one two" {
			t.Errorf("body %q", body)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("the answer took %v", took)
		}
		if _, err := in.ReadByte(); err != io.EOF || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("idle: %v after %v", err, time.Since(began))
		}

		gone := l.dial()
		send(t, gone, get)
		if _, err := gone.Read(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		began = time.Now()
		_ = gone.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the client's leaving took %v to be seen", took)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
