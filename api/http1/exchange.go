package http1

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmring/warmring/routing/proxy/field"
)

// smallBody is up to what size an answer of unknown length is held back, to be
// sent with a Content-Length if that is all of it; it is net/http's.
const smallBody = 2 << 10

// Room in front of a body for what is known only when it is sent: the fields
// of its framing, and a chunk's size.
const (
	frameRoom = 256
	chunkRoom = 20
)

// errOver is for handlers that write when they have returned.
var errOver = errors.New("http1: the request is over")

// exchange is one request and its answer, and the handler's ResponseWriter.
// There is a new one each time, so that a goroutine that a handler has left
// behind does no harm with it.
type exchange struct {
	c      *conn
	r      http.Request
	parsed *http.Request // if net/http's parser made it: gets the trailers
	url    url.URL       // r's, if ours did
	ctx    requestContext
	body   body

	asked    fields // memory of the request's header
	header   http.Header
	added    field.List
	status   int   // 0: not known
	length   int64 // of the body, as the handler or we have declared it; -1: not known
	written  int64 // of the body, by the handler
	trailers []string
	facts    facts
	framed   bool // the head is complete, in out or on its way
	chunked  bool
	closing  bool // the connection ends with this answer
	duplex   bool // the body may be read while we answer
	err      error

	// What is to be sent: out[:fixed] as it is, then a gap for what send puts
	// there, then a piece of the body.
	out   *[]byte // nil: nothing
	fixed int
	gap   int

	refused     bool       // what the client expects is not offered
	expects     bool       // the client waits for 100 Continue, before it sends the body
	continues   sync.Mutex // guards mayContinue, also over the write that uses it up: nothing may overtake it
	mayContinue bool
}

func newExchange(c *conn) *exchange {
	x := &exchange{c: c, ctx: requestContext{Context: c.base}, asked: c.asked, header: c.header, added: c.added[:0], length: -1}
	c.asked, c.header = fields{}, nil
	if x.header == nil {
		x.header = http.Header{}
	}
	return x
}

// parse makes the request of a head that is plain, and reports whether it is.
func (x *exchange) parse(b []byte, h *head) bool {
	x.r = *new(http.Request).WithContext(&x.ctx) // allocates nothing
	if !parsePlain(&x.r, &x.url, &x.asked, b, h) {
		return false
	}
	x.r.Body = http.NoBody
	if n := x.r.ContentLength; n > 0 {
		x.body.fixed.in, x.body.fixed.left = x.c.in, n
		x.adopt(&x.body.fixed)
	} else {
		x.adopt(nil)
	}
	return true
}

// take makes the request of one that net/http's parser has made.
func (x *exchange) take(r *http.Request) {
	x.parsed = r
	x.r = *r.WithContext(&x.ctx)
	if r.Body != http.NoBody {
		x.adopt(r.Body)
	} else {
		x.adopt(nil)
	}
}

// adopt completes the request, whose body comes from src. nil: it has none.
func (x *exchange) adopt(src io.Reader) {
	x.r.RemoteAddr, x.r.TLS = x.c.remote, x.c.tls
	x.closing = x.r.Close
	expectation := x.r.Header["Expect"]
	x.refused = first(expectation) != "" && !expectsContinue(&x.r)
	if src == nil {
		return
	}
	x.body.x, x.body.src = x, src
	x.body.left.Store(x.r.ContentLength)
	x.r.Body = &x.body
	x.expects = len(expectation) > 0 && x.r.ProtoAtLeast(1, 1) && expectsContinue(&x.r)
	x.mayContinue = x.expects
}

// Header is the answer's; after WriteHeader, only trailers can be set.
func (x *exchange) Header() http.Header { return x.header }

// AddFields adds fields to the answer's head, behind those of Header, of which
// none has their names. That costs a fraction of putting them there. Names must
// be valid and canonical. It keeps nothing of l.
func (x *exchange) AddFields(l field.List) { x.added = append(x.added, l...) }

// WriteHeader sets the status, once; informational ones are sent at once. The
// header is what it is now.
func (x *exchange) WriteHeader(status int) {
	if x.status != 0 {
		return
	}
	if status < 100 || status > 999 {
		status = http.StatusInternalServerError
	}
	if x.expects {
		x.continues.Lock()
		defer x.continues.Unlock()
		x.mayContinue = x.mayContinue && status < 200 && status != http.StatusContinue
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		x.inform(status)
		return
	}
	x.status = status
	out := x.room(0)
	*out = appendStatus((*out)[:0], x.r.ProtoAtLeast(1, 1), status)
	*out = x.appendHeader(*out, false)
	x.fixed, x.gap = len(*out), frameRoom
	*out = slices.Grow(*out, frameRoom)[:x.fixed+frameRoom]
}

// inform sends an informational answer.
func (x *exchange) inform(status int) {
	if x.err != nil {
		return
	}
	out := slice(&x.c.server.pool.out, outSize)
	*out = appendStatus((*out)[:0], x.r.ProtoAtLeast(1, 1), status)
	*out = append(x.appendHeader(*out, true), "\r\n"...)
	x.fail(x.c.write.all(*out, nil, ""))
	x.c.server.pool.putOut(out)
}

// sayContinue asks for the body, once.
func (x *exchange) sayContinue() {
	x.continues.Lock()
	defer x.continues.Unlock()
	if x.mayContinue {
		x.mayContinue = false
		_ = x.c.write.all([]byte("HTTP/1.1 100 Continue\r\n\r\n"), nil, "") // the read that follows fails then
	}
}

// room returns the buffer to write into; a new one gets a gap.
func (x *exchange) room(gap int) *[]byte {
	if x.out == nil {
		x.out = slice(&x.c.server.pool.out, outSize)
		*x.out = (*x.out)[:gap]
		x.fixed, x.gap = 0, gap
	}
	return x.out
}

// Write returns http.ErrBodyNotAllowed or http.ErrContentLength for what the
// answer must not have, and else the connection's errors.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 || x.err != nil {
		return 0, x.err
	}
	if !bodyAllowed(x.status) {
		return 0, http.ErrBodyNotAllowed
	}
	x.written += int64(len(p))
	if x.length >= 0 && x.written > x.length {
		return 0, http.ErrContentLength
	}
	out := x.room(chunkRoom)
	if len(*out)-x.fixed-x.gap+len(p) > smallBody {
		if err := x.send(p, false); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	*out = append(*out, p...)
	return len(p), nil
}

// FlushError sends what was written.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.err == nil && x.out != nil {
		return x.send(nil, false)
	}
	return x.err
}

// Flush is FlushError without the error.
func (x *exchange) Flush() { _ = x.FlushError() } // the next write returns it

// send sends what is held back, and p. With last, the answer ends here.
func (x *exchange) send(p []byte, last bool) error {
	if x.err != nil {
		return x.err
	}
	out := x.room(chunkRoom)
	held := (*out)[x.fixed+x.gap:]
	var space [frameRoom]byte
	front := space[:0]
	if !x.framed {
		front = x.appendFrame(front, held, p, last)
	}
	if x.r.Method == http.MethodHead {
		held, p = nil, nil
	}
	end := ""
	if n := len(held) + len(p); x.chunked && n > 0 {
		front = append(strconv.AppendInt(front, int64(n), 16), "\r\n"...)
		end = "\r\n"
	}
	// front fits in the gap, and held moves up to it.
	*out = append(append((*out)[:x.fixed], front...), held...)
	if last && x.chunked {
		end += "0\r\n" + string(x.appendTrailers(nil)) + "\r\n"
	}
	x.fail(x.c.write.all(*out, p, end))
	x.c.server.pool.putOut(out)
	x.out = nil
	return x.err
}

// fail notes that the connection is broken, if it is.
func (x *exchange) fail(err error) {
	if err != nil {
		x.err = err
		x.ctx.cancel()
	}
}

// finish completes the answer when the handler has returned.
func (x *exchange) finish() {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.err == nil && (x.out != nil || x.chunked) {
		_ = x.send(nil, true) // noted in err
	}
}

// reusable reports whether the connection can take another request after this
// answer; the exchange is over then.
func (x *exchange) reusable() bool {
	short := x.r.Method != http.MethodHead && bodyAllowed(x.status) && x.length >= 0 && x.written != x.length
	if x.err != nil || x.closing || short {
		return false
	}
	x.err = errOver
	return true
}

// SetReadDeadline is for reading the body. When that has ended, it has no
// effect: the connection is watched for the client leaving.
func (x *exchange) SetReadDeadline(t time.Time) error {
	if x.body.src != nil && x.body.state.Load() == open {
		return x.c.nc.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline is for writing the answer.
func (x *exchange) SetWriteDeadline(t time.Time) error { return x.c.nc.SetWriteDeadline(t) }

// EnableFullDuplex lets the body be read while the answer is written. Without,
// what is left of it is thrown away when the answer begins.
func (x *exchange) EnableFullDuplex() error {
	x.duplex = true
	return nil
}
