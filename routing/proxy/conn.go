package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/warmring/warmring/routing/proxy/field"
	"github.com/warmring/warmring/routing/proxy/socket"
)

const (
	readBuffer  = 4 << 10
	maxHead     = 256 << 10 // bytes of a response head, informational ones included
	maxInterim  = 8         // 1xx answers before the real one
	unlimited   = int(^uint(0) >> 1)
	peekIdle    = 20 * time.Millisecond
	maxDiscard  = 64 << 10 // bytes read to save a connection whose answer nobody wants
	sweepEvery  = 5 * time.Second
	copyBuffer  = 32 << 10
	usualFields = 16       // memory for as many fields of an answer to begin with
	joinedWrite = 16 << 10 // head and body of a request up to here are joined for TLS
)

// conn is one connection to a backend. One goroutine uses it at a time: the
// one that serves the request.
type conn struct {
	net.Conn
	br     *bufio.Reader
	req    http.Request // tells the parser of answers the method; nothing else of it is used
	check  func() bool  // reports that the other side has neither closed nor spoken; nil: cannot tell
	budget int          // bytes that may still be read; bounds a response head
	heard  bool         // bytes have come since the request was sent
	reused bool
	since  time.Time // idle since
	pool   *pool
	head   head   // of the answer that it brings; its fields' memory is used again for the next
	plain  body   // of that answer, if its head is plain
	hangUp func() // closes it; made once, since every request needs it
}

func newConn(nc net.Conn, p *pool) *conn {
	c := &conn{Conn: nc, pool: p, check: liveness(nc)}
	c.br = bufio.NewReaderSize(c, readBuffer)
	c.head.fields = make(field.List, 0, usualFields)
	c.hangUp = func() { _ = c.Close() }
	return c
}

// Read counts against the budget, so that a head without end is an error.
func (c *conn) Read(p []byte) (int, error) {
	if c.budget <= 0 {
		return 0, errHeadTooLarge
	}
	n, err := c.Conn.Read(p)
	c.heard = c.heard || n > 0
	if c.budget != unlimited {
		c.budget -= n
	}
	return n, err
}

// writeBoth writes a and then b, in one call if that can be. It may append to a.
func (c *conn) writeBoth(a, b []byte) error {
	if plain, ok := c.Conn.(*socket.Conn); ok {
		_, err := plain.WriteAll(a, b)
		return err
	}
	if len(a)+len(b) <= joinedWrite { // TLS makes a record, and a system call, of each piece
		a, b = append(a, b...), nil
	}
	if _, err := c.Write(a); err != nil || len(b) == 0 {
		return err
	}
	_, err := c.Write(b)
	return err
}

// head is the head of an answer, and the way to its body.
type head struct {
	status  int
	length  int64 // of the body in bytes; -1: not known
	close   bool  // the connection ends with the answer
	fields  field.List
	body    io.Reader
	trailer http.Header    // what followed the body
	resp    *http.Response // if net/http's parser has read it
}

// readHead reads the head of the answer to a request of that method, passing
// over informational answers.
func (c *conn) readHead(method string) error {
	c.budget, c.req.Method = maxHead, method
	if c.plainHead(method) {
		c.budget = unlimited
		return nil
	}
	for range maxInterim {
		resp, err := http.ReadResponse(c.br, &c.req) //nolint:bodyclose // finish gives the connection back or closes it; Close would read the rest
		if err != nil {
			return err
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return errUpgrade
		}
		if resp.StatusCode >= http.StatusOK {
			c.budget = unlimited
			c.head.take(resp)
			return nil
		}
	}
	return errors.New("too many informational answers")
}

// take makes h the head that net/http's parser has read.
func (h *head) take(resp *http.Response) {
	*h = head{
		status: resp.StatusCode, length: resp.ContentLength, close: resp.Close, body: resp.Body, resp: resp,
		fields: passOn(resp),
	}
}

// trailers are the names that may follow the body, and behind it the fields
// that did; nil: none.
func (h *head) trailers() http.Header {
	if h.resp != nil {
		return h.resp.Trailer
	}
	return h.trailer
}

// usable: the connection has waited in the pool and can carry a request now.
// A backend that closes idle connections is found out here, so that the
// request need not be sent twice.
func (c *conn) usable(now time.Time) bool {
	if c.br.Buffered() > 0 {
		return false // the backend spoke without being asked
	}
	return c.check == nil || now.Sub(c.since) < peekIdle || c.check()
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
