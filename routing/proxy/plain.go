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

// plainHead reads the head of an answer as http.ReadResponse does, at a fraction of
// its cost, if it is plain: final, with a body of known framing, and such as
// servers commonly send. It reports false for any other, valid or not, and has
// then read nothing: that one is http.ReadResponse's.
func (c *conn) plainHead(method string) bool {
	if method == http.MethodHead {
		return false
	}
	if _, err := c.br.Peek(1); err != nil {
		return false
	}
	b, _ := c.br.Peek(c.br.Buffered()) // cannot fail: that much is there
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return false
	}
	text := string(b[:end+4]) // all others are parts of it
	h := &c.head
	*h = head{length: -1, fields: h.fields[:0]}
	if cap(h.fields) > plainFields { // the answer before was net/http's to read, and large
		h.fields = nil
	}
	if !h.parse(text) {
		return false
	}
	_, _ = c.br.Discard(len(text)) // nor can this
	c.plain.begin(c)
	h.body = &c.plain
	return true
}

// parse takes a whole head.
func (h *head) parse(text string) bool {
	line, text, _ := strings.Cut(text, "\r\n")
	if !h.parseStatus(line) {
		return false
	}
	chunked := false
	for n := 0; text != "\r\n"; n++ {
		name, value, rest, ok := field.Cut(text)
		if !ok || n == plainFields || !h.keep(name, value, &chunked) {
			return false
		}
		text = rest
	}
	return chunked != (h.length >= 0) // not neither, nor both
}

// parseStatus takes a status line whose status has a body.
func (h *head) parseStatus(line string) bool {
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
	h.status = int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	return h.status >= http.StatusOK && h.status != http.StatusNoContent && h.status != http.StatusNotModified
}

// keep takes a field as http.ReadResponse and passOn do together.
func (h *head) keep(name, value string, chunked *bool) bool {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil || h.length >= 0 || value[0] == '0' && len(value) > 1 {
			return false // net/http's to say what is meant
		}
		h.length = int64(n)
	case "Transfer-Encoding":
		first := !*chunked
		*chunked = true
		return first && value == "chunked"
	case "Connection":
		h.close = h.close || value == "close"
		return value == "close" || value == "keep-alive"
	case "Trailer", "Pragma": // those change other fields
		return false
	case "Close": // Connection may mean this one
		return false
	default:
		if hopByHop(name) {
			return true
		}
	}
	h.fields = append(h.fields, field.Field{Name: name, Value: value})
	return true
}

// body is the body of an answer with a plain head.
type body struct {
	conn   *conn
	left   int64     // bytes
	chunks io.Reader // nil: not chunked, or at the end
}

// begin makes it the body behind the head that was read from c.
func (b *body) begin(c *conn) {
	*b = body{conn: c, left: max(0, c.head.length)}
	if c.head.length < 0 {
		b.chunks = httputil.NewChunkedReader(c.br)
	}
}

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
	b.conn.head.trailer = http.Header(h)
	return io.EOF
}
