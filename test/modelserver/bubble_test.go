package modelserver

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
)

// pipeListener is a listener without a network, for bubbles.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, errors.New("nobody listens")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// visit is a server that is served in a bubble and a client of it.
type visit struct {
	*Server
	t      *testing.T
	client *http.Client
}

// serveInBubble calls f in virtual time.
func serveInBubble(t *testing.T, f func(v *visit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Default())
		if err != nil {
			t.Fatal(err)
		}
		ln := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, ln) }()
		transport := &http.Transport{DialContext: ln.dial}
		f(&visit{s, t, &http.Client{Transport: transport}})
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// request posts a completion and returns when its first byte comes, and its last.
func (v *visit) request(body string) (first, last time.Duration) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, "http://server/v1/completions", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	start := time.Now()
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		v.t.Fatal(err)
	}
	first = time.Since(start)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		v.t.Fatal(err)
	}
	return first, time.Since(start)
}

func TestServedInVirtualTime(t *testing.T) {
	serveInBubble(t, func(v *visit) {
		body := `{"prompt":"` + strings.Repeat("tokn", 8192) + `","max_tokens":101,"stream":true}`
		first, last := v.request(body)
		if first < 300*time.Millisecond || first > 310*time.Millisecond {
			t.Errorf("a cold prompt's first token took %v, want about 305 ms", first)
		}
		if d := last - first; d < 1110*time.Millisecond || d > 1125*time.Millisecond {
			t.Errorf("100 more tokens took %v, want about 1.12 s", d)
		}
		if first, _ := v.request(body); first < 30*time.Millisecond || first > 50*time.Millisecond {
			t.Errorf("a warm prompt's first token took %v, want about 32 ms", first)
		}
		if st := v.Stats(); st.Served != 2 || st.CachedTokens != 8176 {
			t.Errorf("want two served, the second but for one block from the cache: %+v", st)
		}
	})
}

func TestRefuseWithoutASocket(t *testing.T) {
	serveInBubble(t, func(v *visit) {
		body := `{"prompt":"x","max_tokens":1,"stream":true}`
		v.request(body)
		if err := v.SetFault(Fault{Kind: Refuse}); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, "http://server/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := v.client.Do(req); err == nil {
			resp.Body.Close()
			t.Error("the request was not refused")
		}
		if err := v.SetFault(Fault{}); err != nil {
			t.Fatal(err)
		}
		v.request(body)
	})
}

func TestIdleLimitInVirtualTime(t *testing.T) {
	serveInBubble(t, func(v *visit) {
		dials := 0
		transport := v.client.Transport.(*http.Transport)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return dial(ctx, network, addr)
		}
		if err := v.SetFault(Fault{Kind: Idle, Delay: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		for i, step := range []struct {
			pause time.Duration
			dials int
		}{{0, 1}, {4 * time.Second, 1}, {4 * time.Second, 1}, {6 * time.Second, 2}} {
			time.Sleep(step.pause)
			synctest.Wait()
			v.request(`{"prompt":"x","max_tokens":1,"stream":true}`)
			if dials != step.dials {
				t.Errorf("request %d: %d connections so far, want %d", i, dials, step.dials)
			}
		}
	})
}
