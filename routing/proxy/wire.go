package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/warmring/warmring/routing/proxy/field"
)

// hopByHop are the headers that belong to one connection (RFC 9110 section
// 7.6.1), and those that this client writes itself. Names are canonical.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Host", "Content-Length", "Expect":
		return true
	}
	return false
}

// named reports whether a Connection header names the header, which then
// belongs to that connection too.
func named(connection []string, name string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// passOn lists the fields of an answer without the hop-by-hop ones. The length is
// among them where it is known.
func passOn(resp *http.Response) (l field.List) {
	connection := resp.Header["Connection"]
	for name, values := range resp.Header {
		if hopByHop(name) || len(connection) > 0 && named(connection, name) || !httpguts.ValidHeaderFieldName(name) {
			continue
		}
		for _, v := range values {
			l = append(l, field.Field{Name: name, Value: v})
		}
	}
	if resp.ContentLength >= 0 {
		l = append(l, field.Field{Name: "Content-Length", Value: strconv.FormatInt(resp.ContentLength, 10)})
	}
	return l
}

// extra are headers that replace the client's of the same name.
type extra [][2]string

// Get, Set and Keys make extra a propagation.TextMapCarrier.
func (e *extra) Get(name string) string {
	for _, kv := range *e {
		if strings.EqualFold(kv[0], name) {
			return kv[1]
		}
	}
	return ""
}

// Set adds a header.
func (e *extra) Set(name, value string) {
	*e = append(*e, [2]string{http.CanonicalHeaderKey(name), value})
}

// Keys lists the names.
func (e *extra) Keys() []string {
	out := make([]string, 0, len(*e))
	for _, kv := range *e {
		out = append(out, kv[0])
	}
	return out
}

// appendHead writes the request line and the headers.
func appendHead(b []byte, p *pool, r *Request, more extra) []byte {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, p.base...)
	b = append(b, r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, p.host...)
	b = append(b, "\r\n"...)
	connection := r.Header["Connection"]
	for name, values := range r.Header {
		if hopByHop(name) || len(connection) > 0 && named(connection, name) || more.Get(name) != "" {
			continue
		}
		for _, v := range values {
			b = appendHeader(b, name, v)
		}
	}
	for _, kv := range more {
		b = appendHeader(b, kv[0], kv[1])
	}
	switch size := r.Body.length(); {
	case size > 0 || size == 0 && r.Method != http.MethodGet && r.Method != http.MethodHead:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, size, 10)
		b = append(b, "\r\n"...)
	case size < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// length is how many bytes the backend is told to expect; -1: chunked.
func (b *Body) length() int64 {
	if b.Rest == nil {
		return int64(len(b.Head))
	}
	return b.Size
}

// checkTarget refuses what would make a request line that could be read as
// something else. Over HTTP/2, clients can send it.
func checkTarget(r *Request) error {
	if !strings.HasPrefix(r.Path, "/") {
		return ErrTarget
	}
	for i := range len(r.Path) {
		if c := r.Path[i]; c <= ' ' || c == 0x7f {
			return ErrTarget
		}
	}
	return nil
}

// send writes the request: head and first bytes of the body in one write, then
// the rest as it arrives from the client.
func (c *call) send(ctx context.Context, cn *conn, more extra) error {
	if err := cn.SetWriteDeadline(c.now.Add(c.cfg.Timeouts.FirstByte)); err != nil {
		return err
	}
	if err := c.sendFirst(cn, more); err != nil || c.r.Body.Rest == nil {
		return err
	}
	c.begun = true
	return c.sendRest(ctx, cn)
}

// sendFirst writes the head and as much of the body as is there.
func (c *call) sendFirst(cn *conn, more extra) error {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	body := c.r.Body.Head
	b := appendHead((*bp)[:0], cn.pool, c.r, more)
	defer func() { *bp = b[:0] }() // it may have grown
	if c.r.Body.length() < 0 {
		b = appendChunk(b, body)
		body = nil
	}
	return cn.writeBoth(b, body)
}

// sendRest relays the part of the body that has not been read yet.
func (c *call) sendRest(ctx context.Context, cn *conn) error {
	chunked := c.r.Body.length() < 0
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	out := make([]byte, 0, copyBuffer+16)
	for {
		n, rerr := c.r.Body.Rest.Read((*bp)[:copyBuffer])
		c.res.BytesIn += int64(n)
		out = append(out[:0], (*bp)[:n]...)
		if chunked {
			out = appendChunk(out[:0], (*bp)[:n])
			if rerr == io.EOF {
				out = append(out, "0\r\n\r\n"...)
			}
		}
		if werr := cn.put(out, c.cfg.Timeouts.Idle); werr != nil {
			return werr
		}
		switch {
		case rerr == io.EOF:
			return nil
		case ctx.Err() != nil:
			return ErrClientGone
		case rerr != nil:
			return fmt.Errorf("%w: %w", ErrBody, rerr)
		}
	}
}

// put writes b, which may be empty, within limit.
func (c *conn) put(b []byte, limit time.Duration) error {
	if len(b) == 0 {
		return nil
	}
	if err := c.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// appendChunk frames p as one chunk (RFC 9112 section 7.1).
func appendChunk(b, p []byte) []byte {
	if len(p) == 0 {
		return b
	}
	b = strconv.AppendInt(b, int64(len(p)), 16)
	b = append(b, "\r\n"...)
	b = append(b, p...)
	return append(b, "\r\n"...)
}
