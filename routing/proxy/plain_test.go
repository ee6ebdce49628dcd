package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// canned is a connection that brings bytes and then ends.
type canned struct {
	net.Conn
	in io.Reader
}

func (c canned) Read(p []byte) (int, error) { return c.in.Read(p) }

// parsed is all that a reader of an answer can see.
type parsed struct {
	Status  int
	Header  http.Header
	Length  int64
	Close   bool
	Body    string
	Broken  bool
	Trailer http.Header
	Rest    string
}

func drain(h *head, rest io.Reader) parsed {
	body, err := io.ReadAll(h.body)
	p := parsed{Status: h.status, Header: http.Header{}, Length: h.length, Close: h.close, Body: string(body), Broken: err != nil, Trailer: h.trailers()}
	h.fields.AddTo(p.Header)
	if err == nil {
		left, _ := io.ReadAll(rest)
		p.Rest = string(left)
	}
	if len(p.Trailer) == 0 {
		p.Trailer = nil
	}
	return p
}

// plainly reads raw as a connection does, if its head is plain.
func plainly(raw []byte) (parsed, bool) {
	c := newConn(canned{in: bytes.NewReader(raw)}, nil)
	c.budget = maxHead
	if !c.plainHead(http.MethodPost) {
		return parsed{}, false
	}
	c.budget = unlimited
	return drain(&c.head, c.br), true
}

func plainAnswers() map[string]bool {
	return map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi":                                                   true,
		"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\nx-up: 1\r\n\r\nhi and":  true,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n":                         true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP":                    true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: 1\r\n\r\nHTTP":            true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n":                                 true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: 1\r\n":                    true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n":                                true,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi":                                                   true,
		"HTTP/1.1 200 OK\r\n\r\nuntil the end":                                                             false,
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n":                                             false,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                        false,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi":                                                   false,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi":                              false,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":              false,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n":                             false,
		"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n":                   true,
		"HTTP/1.1 200 OK\r\nTe: 1\r\nkeep-alive: 5\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nClose: 1\r\nContent-Length: 0\r\n\r\n":                    false,
		"HTTP/1.1 200 OK\r\nConnection: X\r\nX: 1\r\nContent-Length: 0\r\n\r\n":                            false,
		"HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\r\n\r\n":             false,
		"HTTP/1.1 200 OK\r\nA: 1\r\n 2\r\nContent-Length: 0\r\n\r\n":                                       false,
		"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n":                                                    false,
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                                                        false,
		"HTTP/1.1 200 OK\r\nContent-Length: 02\r\n\r\nhi":                                                  false,
		"HTTP/1.1 200 OK\r\nContent-Length: 00\r\n\r\n":                                                    false,
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi":                                                  false,
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi":                                                         false,
		"": false,
	}
}

func TestPlainHeads(t *testing.T) {
	for raw, want := range plainAnswers() {
		if _, ok := plainly([]byte(raw)); ok != want {
			t.Errorf("%q: plain is %v; want %v", raw, ok, want)
		}
	}
	many := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("X-Y: 1\r\n", plainFields) + "\r\n"
	if _, ok := plainly([]byte(many)); ok {
		t.Error("any number of fields is plain")
	}
	if c := newConn(canned{in: strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")}, nil); true {
		c.budget = maxHead
		if c.plainHead(http.MethodHead) {
			t.Error("an answer to HEAD has no body to be plain")
		}
	}
}

// FuzzPlainHead: what is read in the quick way is what net/http reads.
func FuzzPlainHead(f *testing.F) {
	for raw := range plainAnswers() {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := plainly(raw)
		if !ok {
			return
		}
		br := bufio.NewReaderSize(bytes.NewReader(raw), readBuffer)
		r, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", raw, err)
		}
		var want head
		want.take(r)
		if diff := cmp.Diff(drain(&want, br), got); diff != "" {
			t.Errorf("%q (-net/http +plain):\n%s", raw, diff)
		}
	})
}
