package http1

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/warmring/warmring/routing/proxy/field"
)

// plainFields is up to how many fields a plain head has. It bounds what is
// allocated ahead for them.
const plainFields = 64

// fields is the memory of a plain head's Header. Empty, it is used again.
type fields struct {
	header http.Header
	values []string
}

// room makes room for n fields.
func (f *fields) room(n int) {
	if f.header == nil {
		f.header = make(http.Header, n)
	}
	f.values = slices.Grow(f.values, n)
}

func (f *fields) empty() {
	clear(f.header)
	clear(f.values)
	f.values = f.values[:0]
}

// parsePlain fills r and u, which becomes r.URL, from a whole head as
// http.ReadRequest does, but for the body. It reports false for any head that
// is not plain, valid or not, which is http.ReadRequest's then: it takes only
// what clients commonly send, so as to have no opinions of its own. r.Header
// lives in m.
func parsePlain(r *http.Request, u *url.URL, m *fields, b []byte, h *head) bool {
	n := h.lines - 1
	if h.hosts != 1 || h.badHost || h.folded || h.coding || n > plainFields {
		return false
	}
	text := string(b) // all others are parts of it
	line, text, _ := strings.Cut(text, "\r\n")
	if !parsePlainLine(r, u, line) {
		return false
	}
	m.room(n)
	r.Header = m.header
	for text != "\r\n" {
		name, value, rest, ok := field.Cut(text)
		if !ok || !keepField(r, name, value, m) {
			return false
		}
		text = rest
	}
	r.Close = httpguts.HeaderValuesContainsToken(r.Header["Connection"], "close")
	return true
}

// parsePlainLine takes a request line without its end.
func parsePlainLine(r *http.Request, u *url.URL, line string) bool {
	line, ok := strings.CutSuffix(line, " HTTP/1.1")
	if !ok {
		return false
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Method, r.RequestURI, _ = strings.Cut(line, " ")
	if r.Method == "" || !strings.HasPrefix(r.RequestURI, "/") {
		return false
	}
	for i := range len(r.Method) {
		if !httpguts.IsTokenRune(rune(r.Method[i])) {
			return false
		}
	}
	r.URL = u
	return parsePlainTarget(u, r.RequestURI)
}

// parsePlainTarget takes a target in origin form. Where nothing in its path
// could be escaped, it is what it says; net/url has to see to others.
func parsePlainTarget(u *url.URL, target string) bool {
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return false
		}
	}
	path, query, queried := strings.Cut(target, "?")
	if plainPath(path) && (query != "" || !queried) {
		u.Path, u.RawQuery = path, query
		return true
	}
	parsed, err := url.ParseRequestURI(target)
	if err == nil {
		*u = *parsed
	}
	return err == nil
}

// plainPath: net/url leaves p as it is in both ways.
func plainPath(p string) bool {
	for i := range len(p) {
		c := p[i]
		letter, digit := c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9'
		if !letter && !digit && strings.IndexByte("/-._~", c) < 0 {
			return false
		}
	}
	return true
}

// keepField puts a field where http.ReadRequest does.
func keepField(r *http.Request, name, value string, m *fields) bool {
	switch name {
	case "Host":
		r.Host = value
		return true
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return false
		}
		r.ContentLength = int64(n)
	case "Transfer-Encoding", "Trailer", "Pragma": // those change other fields
		return false
	}
	known, at := len(r.Header), len(m.values)
	m.values = append(m.values, value)
	r.Header[name] = m.values[at : at+1 : at+1]
	return len(r.Header) > known // else it is there twice
}

// fixed is a body with a Content-Length. Like net/http's, it may be read by
// several goroutines at a time, and returns io.EOF with the last bytes.
type fixed struct {
	mu   sync.Mutex // guards what follows, also over the read: what comes of that belongs to one caller
	in   *bufio.Reader
	left int64
}

func (f *fixed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	switch {
	case f.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
