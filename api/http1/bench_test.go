package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// answerer reads the body and answers with 1 KB.
func answerer() http.Handler {
	text := bytes.Repeat([]byte("x"), 1024)
	pieces := sync.Pool{New: func() any { return new([4096]byte) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := pieces.Get().(*[4096]byte)
		defer pieces.Put(piece)
		for {
			if _, err := r.Body.Read(piece[:]); err != nil {
				break
			}
		}
		h := w.Header()
		h["Content-Type"] = []string{"application/json"}
		h["Content-Length"] = []string{"1024"}
		_, _ = w.Write(text)
	})
}

// BenchmarkServers has 16 keep-alive connections post 4 KB each, again and
// again, to net/http's server and to this one in turns, since a machine's speed
// changes more from one second to the next than the two differ.
func BenchmarkServers(b *testing.B) {
	const clients = 16
	var loads [2]*load
	for i, kind := range kinds {
		loads[i] = newLoad(b, kind.start(b, answerer()), clients)
	}
	var took [2][]float64
	var ratio []float64
	for b.Loop() {
		var seconds [2]float64
		for i, l := range loads {
			seconds[i] = l.run(b, 200).Seconds()
			took[i] = append(took[i], seconds[i]/(200*clients))
		}
		ratio = append(ratio, seconds[0]/seconds[1])
	}
	b.ReportMetric(1/median(took[0]), "nethttp-req/s")
	b.ReportMetric(1/median(took[1]), "http1-req/s")
	b.ReportMetric(median(ratio), "ratio")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkAllocations counts what each server allocates for a request.
func BenchmarkAllocations(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind.name, func(b *testing.B) {
			l := newLoad(b, kind.start(b, answerer()), 1)
			b.ReportAllocs()
			b.ResetTimer()
			l.run(b, b.N)
		})
	}
}

// load is a number of clients on keep-alive connections.
type load struct {
	conns   []net.Conn
	request []byte
}

func newLoad(b *testing.B, addr string, clients int) *load {
	b.Helper()
	l := &load{request: fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nContent-Type: application/json\r\n"+
		"Accept: application/json\r\nAuthorization: Bearer 0123456789abcdef\r\nContent-Length: 4096\r\n\r\n%s", addr, bytes.Repeat([]byte("y"), 4096))}
	for range clients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		l.conns = append(l.conns, c)
	}
	return l
}

// run has each client send n requests.
func (l *load) run(b *testing.B, n int) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range l.conns {
		wg.Go(func() {
			if err := post(c, l.request, n); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// post sends a request n times and reads its answers, as cheaply as it can.
func post(c net.Conn, request []byte, n int) error {
	in := bufio.NewReaderSize(c, 8192)
	for range n {
		if _, err := c.Write(request); err != nil {
			return err
		}
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) == 2 {
				break
			}
			if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
					return err
				}
			}
		}
		if _, err := io.CopyN(io.Discard, in, int64(length)); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkHeads reads a head in the way that any takes, and in the plain one's.
func BenchmarkHeads(b *testing.B) {
	raw := []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1\r\nContent-Type: application/json\r\n" +
		"Accept: application/json\r\nAuthorization: Bearer 0123456789abcdef\r\nContent-Length: 4096\r\n\r\n")
	b.Run("any", func(b *testing.B) {
		b.ReportAllocs()
		src := bytes.NewReader(nil)
		in := bufio.NewReader(src)
		for b.Loop() {
			src.Reset(raw)
			in.Reset(src)
			var h head
			h.feed(raw)
			r, err := http.ReadRequest(in)
			if err != nil || check(r, &h) != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		var m fields
		b.ReportAllocs()
		for b.Loop() {
			var h head
			n := h.feed(raw)
			if !parsePlain(new(http.Request), new(url.URL), &m, raw[:n], &h) {
				b.Fatal("not plain")
			}
			m.empty()
		}
	})
}
