package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// plainHeads are heads and whether they are plain.
var plainHeads = []struct {
	raw   string
	plain bool
}{
	{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"GET //a/b-c.d_e~f HTTP/1.1\r\nHost: h:80\r\n\r\n", true},
	{"GET /a%2Fb;c=d HTTP/1.1\r\nHost:h\r\n\r\n", true},
	{"GET /a?b=%zz&c HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"GET /a? HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"GET /a?? HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"GET /a#b?c#d HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"CONNECT /a HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\nx-a-B: \r\nX-C:1 \t2\r\n\r\nhello", true},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 005\r\n\r\nhel", true},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", true},
	{"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: x, Close\r\nExpect: 100-continue\r\n\r\nh", true},
	{"GET / HTTP/1.1\r\nHost:\r\n\r\n", true},

	{"GET / HTTP/1.0\r\nHost: h\r\n\r\n", false},
	{"GET / HTTP/1.1\nHost: h\n\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\n\n", false},
	{"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"GET /\x80 HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"G(T / HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{" / HTTP/1.1\r\nHost: h\r\n\r\n", false},
	{"GET / HTTP/1.1\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\n 2\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\nx: 2\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX:  1\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX: 1\t\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX: \x80\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX : 1\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\n: 1\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: h\r\nTrailer: X\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello", false},
	{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\nhello", false},
	{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\nhello", false},
	{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", false},
	{"GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X: 1\r\n", plainFields) + "\r\n", false},
}

// plainRequest parses what raw begins with, if it is a plain head.
func plainRequest(raw []byte) (*http.Request, bool) {
	var h head
	n := h.feed(raw)
	if n == 0 {
		return nil, false
	}
	r := new(http.Request)
	if !parsePlain(r, new(url.URL), new(fields), raw[:n], &h) {
		return nil, false
	}
	r.Body = http.NoBody
	if r.ContentLength > 0 {
		r.Body = io.NopCloser(&fixed{in: bufio.NewReader(bytes.NewReader(raw[n:])), left: r.ContentLength})
	}
	return r, true
}

// comparePlain has http.ReadRequest read a plain head too, and check take it.
func comparePlain(t *testing.T, raw []byte, ours *http.Request) {
	t.Helper()
	theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatalf("%q: net/http refuses it: %v", raw, err)
	}
	var h head
	h.feed(raw)
	if err := check(theirs, &h); err != nil {
		t.Fatalf("%q: refused: %v", raw, err)
	}
	got, gotErr := io.ReadAll(ours.Body)
	want, wantErr := io.ReadAll(theirs.Body)
	if !bytes.Equal(got, want) || !errors.Is(gotErr, wantErr) {
		t.Errorf("%q: body %q, %v; net/http: %q, %v", raw, got, gotErr, want, wantErr)
	}
	if (ours.Body == http.NoBody) != (theirs.Body == http.NoBody) {
		t.Errorf("%q: body %v; net/http: %v", raw, ours.Body, theirs.Body)
	}
	ours.Body, theirs.Body = nil, nil
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("%q:\nwe       %+v %#v\nnet/http %+v %#v", raw, ours, ours.URL, theirs, theirs.URL)
	}
}

func TestPlainHeads(t *testing.T) {
	for _, c := range plainHeads {
		r, plain := plainRequest([]byte(c.raw))
		if plain != c.plain {
			t.Errorf("%q: plain %v", c.raw, plain)
		}
		if plain {
			comparePlain(t, []byte(c.raw), r)
		}
	}
}

// FuzzPlainHead: of a plain head, we make the request that net/http does.
func FuzzPlainHead(f *testing.F) {
	for _, c := range plainHeads {
		f.Add([]byte(c.raw))
	}
	for _, c := range conversations {
		if len(c.raw) < 4096 {
			f.Add([]byte(c.raw))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, plain := plainRequest(raw); plain {
			comparePlain(t, raw, r)
		}
	})
}

// TestFixed: io.EOF comes with the last bytes, and for good; a body that is cut
// says so.
func TestFixed(t *testing.T) {
	p := make([]byte, 8)
	f := &fixed{in: bufio.NewReader(strings.NewReader("hello, next")), left: 5}
	if n, err := f.Read(p[:2]); n != 2 || err != nil {
		t.Errorf("first read: %d, %v", n, err)
	}
	if n, err := f.Read(p); string(p[:n]) != "llo" || !errors.Is(err, io.EOF) {
		t.Errorf("last read: %q, %v", p[:n], err)
	}
	if n, err := f.Read(p); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after that: %d, %v", n, err)
	}
	f = &fixed{in: bufio.NewReader(iotest.DataErrReader(strings.NewReader("hel"))), left: 5}
	if got, err := io.ReadAll(f); string(got) != "hel" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %q, %v", got, err)
	}
	if n, err := f.Read(p); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after the cut: %d, %v", n, err)
	}
	broken := errors.New("broken")
	f = &fixed{in: bufio.NewReader(iotest.ErrReader(broken)), left: 5}
	if _, err := f.Read(p); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
}
