package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// kinds are the two servers that should behave alike.
var kinds = []struct {
	name  string
	start func(testing.TB, http.Handler) string
}{
	{"net/http", func(t testing.TB, h http.Handler) string {
		t.Helper()
		return serve(t, standard(h))
	}},
	{"http1", func(t testing.TB, h http.Handler) string {
		t.Helper()
		return serve(t, New(configFor(h)))
	}},
}

func standard(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: headLimit}
}

const headLimit = 16 << 10

func configFor(h http.Handler) Config {
	return Config{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: headLimit}
}

type anyServer interface {
	Serve(l net.Listener) error
	Close() error
}

// serve runs a server until the test ends, and returns its address.
func serve(t testing.TB, s anyServer) string {
	t.Helper()
	return serveOn(t, s, "tcp", "127.0.0.1:0")
}

func serveOn(t testing.TB, s anyServer, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// dial connects to a server until the test ends, for at most ten seconds.
func dial(t testing.TB, addr string) stream {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(stream)
}

// stream is a connection on TCP or a Unix socket.
type stream interface {
	net.Conn
	CloseWrite() error
}

// talk sends raw bytes, ends its side, and returns all that comes back.
func talk(t testing.TB, addr, raw string) string {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = io.WriteString(c, raw) // the server may not want all of it
		_ = c.CloseWrite()
	}()
	all, err := io.ReadAll(c)
	if errors.Is(err, errors.ErrUnsupported) || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("no end of the answer to %.60q: %q, %v", raw, all, err)
	}
	<-wrote
	return string(all)
}

// send writes a request.
func send(t testing.TB, c net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
}

// receive reads one answer, with its body.
func receive(t testing.TB, in *bufio.Reader) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// within fails the test if nothing comes out of c in time.
func within[T any](t testing.TB, limit time.Duration, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(limit):
		t.Fatalf("%s: not within %v", what, limit)
	}
	return v
}

// answers renders raw answers so that they can be compared: one line a field,
// in order and without Date, bodies without chunks.
func answers(raw string) string {
	var b strings.Builder
	in := bufio.NewReader(strings.NewReader(raw))
	for {
		method := http.MethodGet
		if head, _ := in.Peek(200); bytes.Contains(head, []byte("X-Method: HEAD")) {
			method = http.MethodHead
		}
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			if rest, _ := io.ReadAll(in); len(rest) > 0 {
				fmt.Fprintf(&b, "garbage %q\n", rest)
			}
			return b.String()
		}
		body, err := io.ReadAll(res.Body)
		fmt.Fprintf(&b, "%s %s\n", res.Proto, res.Status)
		res.Header.Del("Date")
		for _, name := range slices.Sorted(maps.Keys(res.Header)) {
			fmt.Fprintf(&b, "%s: %q\n", name, res.Header[name])
		}
		fmt.Fprintf(&b, "length %d %v close %v\n%q %v\n", res.ContentLength, res.TransferEncoding, res.Close, body, err)
		for _, name := range slices.Sorted(maps.Keys(res.Trailer)) {
			fmt.Fprintf(&b, "trailer %s: %q\n", name, res.Trailer[name])
		}
	}
}

// saw renders what a handler sees of a request.
func saw(r *http.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s host %q length %d %v close %v\n", r.Method, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Close)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(&b, "%s: %q\n", name, r.Header[name])
	}
	return b.String()
}

// handler does what the path says.
func handler(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Method", r.Method)
	control := http.NewResponseController(w)
	switch r.URL.Path {
	case "/early":
		_, _ = io.WriteString(w, "early")
	case "/unread-flushed":
		_, _ = io.WriteString(w, "early")
		_ = control.Flush()
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, " read %d %v", n, err)
	case "/duplex":
		_ = control.EnableFullDuplex()
		_, _ = io.WriteString(w, "early ")
		_ = control.Flush()
		_, _ = io.Copy(w, r.Body)
	case "/close":
		h.Set("Connection", "close")
		_, _ = io.WriteString(w, "bye")
	case "/empty":
	case "/204":
		h.Set("Content-Length", "5")
		w.WriteHeader(http.StatusNoContent)
		_, err := io.WriteString(w, "hello")
		if !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(http.ErrAbortHandler)
		}
	case "/304":
		h.Set("Content-Type", "text/plain")
		h.Set("Etag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case "/599":
		w.WriteHeader(599)
	case "/large":
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("0123456789", 10))
		}
	case "/edge":
		_, _ = w.Write(bytes.Repeat([]byte("e"), smallBody))
	case "/over":
		_, _ = w.Write(bytes.Repeat([]byte("e"), smallBody+1))
	case "/flush":
		_, _ = io.WriteString(w, "one ")
		_ = control.Flush()
		_, _ = io.WriteString(w, "two")
	case "/headers-only":
		w.WriteHeader(http.StatusAccepted)
		_ = control.Flush()
	case "/length":
		h.Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
		if _, err := io.WriteString(w, "more"); !errors.Is(err, http.ErrContentLength) {
			panic(http.ErrAbortHandler)
		}
	case "/short":
		h.Set("Content-Length", "10")
		_, _ = io.WriteString(w, "hello")
	case "/bad-length":
		h.Set("Content-Length", "x")
		_, _ = io.WriteString(w, "hello")
	case "/identity":
		h.Set("Transfer-Encoding", "identity")
		_, _ = io.WriteString(w, "hello")
	case "/html":
		_, _ = io.WriteString(w, "<html><body>x")
	case "/untyped":
		h["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html><body>x")
	case "/encoded":
		h.Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not really")
	case "/inject":
		h.Set("X-Bad", " a\r\nSet-Cookie: x\n\ty ")
		h.Set("Bad Name", "x")
		h["X-Many"] = []string{"1", "2"}
	case "/late":
		w.WriteHeader(http.StatusOK)
		h.Set("X-Late", "1")
		_, _ = io.WriteString(w, "late")
	case "/trailers":
		h.Set("Trailer", "X-Sum, X-Two,Te")
		_, _ = io.WriteString(w, "body")
		h.Set("X-Sum", "42")
		h.Set(http.TrailerPrefix+"X-Un\nnounced", "no")
		h.Set(http.TrailerPrefix+"X-Unannounced", "yes\r\nX: y")
	case "/informs":
		h.Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
		_, _ = io.WriteString(w, "done")
	case "/abort":
		_, _ = io.WriteString(w, "part")
		_ = control.Flush()
		_, _ = io.WriteString(w, "never")
		panic(http.ErrAbortHandler)
	case "/abort-at-once":
		_, _ = io.WriteString(w, "never")
		panic(http.ErrAbortHandler)
	default:
		body, err := io.ReadAll(r.Body)
		h.Set("Content-Type", "text/plain")
		_, _ = fmt.Fprintf(w, "%sbody %d %.40q %v trailer %v", saw(r), len(body), body, err != nil, r.Trailer)
	}
}
