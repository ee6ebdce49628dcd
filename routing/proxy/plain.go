package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/warmring/warmring/routing/proxy/field"
)

// plainFields is up to how many fields a plain head has.
const plainFields = 64

// plainHead reads the head of an answer as http.ReadResponse does, at a third of
// its cost, if it is plain: final, with a body of known framing, and such as
// servers commonly send. It reports false for any other, valid or not, and has
// then read nothing: that one is http.ReadResponse's.
func (c *conn) plainHead(method string) (*http.Response, bool) {
	if method == http.MethodHead {
		return nil, false
	}
	if _, err := c.br.Peek(1); err != nil {
		return nil, false
	}
	b, _ := c.br.Peek(c.br.Buffered()) // cannot fail: that much is there
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, false
	}
	text := string(b[:end+4]) // all others are parts of it
	r := &c.plain
	clear(r.fields)
	r.Response = http.Response{ContentLength: -1, Header: r.fields}
	if !r.parse(text) {
		return nil, false
	}
	_, _ = c.br.Discard(len(text)) // nor can this
	r.body.begin(c, &r.Response)
	r.Body = &r.body
	return &r.Response, true
}

// plain is an answer with a plain head. A connection has one, for the answer
// that it brings at a time; only the values of the header are new for each.
type plain struct {
	http.Response
	fields http.Header // the memory of Header
	body   body
}

func (r *plain) parse(text string) bool {
	line, text, _ := strings.Cut(text, "\r\n")
	if !r.parseStatus(line) {
		return false
	}
	n := strings.Count(text, "\r\n") - 1
	if n > plainFields {
		return false
	}
	values := make([]string, n)
	chunked := false
	for text != "\r\n" {
		name, value, rest, ok := field.Cut(text)
		if !ok || !r.keep(name, value, values, &chunked) {
			return false
		}
		text, values = rest, values[1:]
	}
	return chunked != (r.ContentLength >= 0) // not neither, nor both
}

// parseStatus takes a status line whose status has a body.
func (r *plain) parseStatus(line string) bool {
	rest, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(rest) < 4 || rest[3] != ' ' {
		return false
	}
	for i := range 3 {
		if rest[i] < '0' || rest[i] > '9' {
			return false
		}
	}
	for i := range len(rest) {
		if rest[i] < ' ' || rest[i] > '~' {
			return false
		}
	}
	r.StatusCode = int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	return r.StatusCode >= http.StatusOK && r.StatusCode != http.StatusNoContent && r.StatusCode != http.StatusNotModified
}

// keep puts a field where http.ReadResponse does. Its value lives in the first
// of values.
func (r *plain) keep(name, value string, values []string, chunked *bool) bool {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil {
			return false
		}
		r.ContentLength = int64(n)
	case "Transfer-Encoding":
		first := !*chunked
		*chunked = true
		return first && value == "chunked"
	case "Connection":
		r.Close = value == "close"
		if !r.Close && value != "keep-alive" {
			return false
		}
	case "Trailer", "Pragma": // those change other fields
		return false
	}
	known := len(r.Header)
	values[0] = value
	r.Header[name] = values[:1:1]
	return len(r.Header) > known // else it is there twice
}

// body is the body of an answer with a plain head.
type body struct {
	conn   *conn
	left   int64     // bytes
	chunks io.Reader // nil: not chunked, or at the end
	answer *http.Response
}

// begin makes it the body of r, whose head has been read from c.
func (b *body) begin(c *conn, r *http.Response) {
	*b = body{conn: c, left: max(0, r.ContentLength), answer: r}
	if r.ContentLength < 0 {
		b.chunks = httputil.NewChunkedReader(c.br)
	}
}

func (b *body) Close() error { return nil }

func (b *body) Read(p []byte) (int, error) {
	if b.chunks != nil {
		n, err := b.chunks.Read(p)
		if errors.Is(err, io.EOF) {
			b.chunks = nil
			err = b.readTrailer()
		}
		return n, err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.conn.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// readTrailer reads what follows the last chunk, and returns io.EOF.
func (b *body) readTrailer() error {
	in := b.conn.br
	if end, err := in.Peek(2); err == nil && string(end) == "\r\n" {
		_, _ = in.Discard(2) // cannot fail: they are there
		return io.EOF
	}
	for n := 4; ; n++ { // up to the blank line, which the buffer must have room for
		end, err := in.Peek(n)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if bytes.HasSuffix(end, []byte("\r\n\r\n")) {
			break
		}
	}
	h, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return err
	}
	b.answer.Trailer = http.Header(h)
	return io.EOF
}
