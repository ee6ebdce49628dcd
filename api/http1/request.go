package http1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// refusal is the answer to a request that cannot be served.
type refusal struct {
	status int
	text   string // says why; "": nothing to add
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%d %s", r.status, http.StatusText(r.status))
	if r.text != "" {
		text += ": " + r.text
	}
	return text
}

func malformed(why string) error { return &refusal{http.StatusBadRequest, why} }

// refuse answers a request that could not be read. A client that has left, or
// taken too long, gets no answer.
func (c *conn) refuse(err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return
	}
	text := r.Error()
	c.limitWrites(time.Now().Add(refuseLimit))
	err = c.write.all(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n%s",
		r.status, http.StatusText(r.status), text), nil, "")
	if err == nil {
		c.linger()
	}
}

// head finds the end of a request's head, in pieces as they arrive, and notes
// what net/http's parser keeps to itself.
type head struct {
	searched int // how far
	line     int // where the latest line begins
	lines    int // that are complete
	hosts    int // Host fields
	badHost  bool
	folded   bool // a field goes on in a further line
	length   bool // has a Content-Length
	coding   bool // has a Transfer-Encoding
}

// feed returns the length of the head that b begins with, or 0 if it is not
// complete. Each b extends the one before.
func (h *head) feed(b []byte) int {
	for {
		i := bytes.IndexByte(b[h.searched:], '\n')
		if i < 0 {
			h.searched = len(b)
			return 0
		}
		end := h.searched + i + 1
		if h.field(b[h.line:end]) {
			return end
		}
		h.line, h.searched = end, end
		h.lines++
	}
}

// field looks at a line, with its end, and reports whether it is the last one.
func (h *head) field(line []byte) bool {
	text := bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
	switch {
	case h.lines == 0:
		// Whatever this is, no head of it is worth waiting for.
		return !bytes.Contains(line, []byte(" HTTP/"))
	case len(text) == 0:
		return true
	case text[0] == ' ' || text[0] == '\t':
		h.folded = true
	case named(text, "host"):
		h.hosts++
		h.badHost = h.badHost || !httpguts.ValidHostHeader(string(bytes.TrimSpace(text[len("host:"):])))
	case named(text, "content-length"):
		h.length = true
	case named(text, "transfer-encoding"):
		h.coding = true
	}
	return false
}

// named: line is a field of the name, which is in lower case.
func named(line []byte, name string) bool {
	if len(line) <= len(name) || line[len(name)] != ':' {
		return false
	}
	for i := range len(name) {
		if line[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}

// readHead waits until a whole head is in the reader, and returns its length.
func (c *conn) readHead() (head, int, error) {
	var h head
	most := c.server.cfg.MaxHeaderBytes
	for timed := false; ; {
		b, _ := c.in.Peek(c.in.Buffered()) // cannot fail
		n := h.feed(b)
		if n > most || n == 0 && len(b) >= most {
			return h, 0, &refusal{http.StatusRequestHeaderFieldsTooLarge, ""}
		}
		if n > 0 {
			return h, n, nil
		}
		if !timed {
			timed = true
			c.limitReads(after(c.server.cfg.ReadHeaderTimeout))
		}
		if len(b) == c.in.Size() {
			c.resize(min(2*len(b), most))
		}
		if _, err := c.in.Peek(len(b) + 1); err != nil {
			if errors.Is(err, io.EOF) && len(b) > 0 {
				err = malformed("the request is not complete")
			}
			return h, 0, err
		}
	}
}

// readRequest reads a request up to its body.
func (c *conn) readRequest() (*exchange, error) {
	if c.served { // RFC 9112, section 2.2: old clients send an empty line too many
		b, _ := c.in.Peek(min(c.in.Buffered(), len("\r\n"))) // cannot fail
		_, _ = c.in.Discard(len(b) - len(bytes.TrimLeft(b, "\r\n")))
	}
	h, n, err := c.readHead()
	if err != nil {
		return nil, err
	}
	x := newExchange(c)
	if b, _ := c.in.Peek(n); x.parse(b, &h) { // cannot fail
		_, _ = c.in.Discard(n)
		return x, nil
	}
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil, refused(err)
	}
	if err := check(r, &h); err != nil {
		return nil, err
	}
	// Such framing is what smuggled requests have; whoever is in front of us may
	// have read it in another way (RFC 9112, section 6.1).
	if h.coding && (h.length || !r.ProtoAtLeast(1, 1)) {
		r.Close = true
	}
	x.take(r)
	return x, nil
}

// refused is the answer to what net/http's parser does not take.
func refused(err error) error {
	// Its error for this has no exported type, only these two texts; in any
	// other error, what the client has sent does not come first.
	for _, text := range []string{"unsupported transfer encoding", "too many transfer encodings"} {
		if strings.HasPrefix(err.Error(), text) {
			return &refusal{http.StatusNotImplemented, "unsupported transfer encoding"}
		}
	}
	return malformed("")
}

// check refuses what net/http's server does beyond its parser, and folded
// fields, which RFC 9112, section 5.2, allows us to.
func check(r *http.Request, h *head) error {
	switch {
	case r.ProtoMajor != 1:
		return &refusal{http.StatusHTTPVersionNotSupported, ""}
	case h.folded:
		return malformed("folded header field")
	case h.hosts == 0 && r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect:
		return malformed("missing required Host header")
	case h.hosts > 1:
		return malformed("too many Host headers")
	case h.badHost:
		return malformed("malformed Host header")
	case r.RequestURI == "*" && r.Method != http.MethodOptions:
		return malformed("only OPTIONS may ask for *")
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return malformed("invalid header name")
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return malformed("invalid header value")
			}
		}
	}
	return nil
}

func expectsContinue(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")
}
