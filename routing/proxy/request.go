package proxy

import (
	"io"
	"net/http"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/proxy/field"
)

// Body is a request's body: the part that was read to make the decision, and
// the part that is still to come.
type Body struct {
	Head []byte    // kept until Serve returns, so that a retry can send it again
	Rest io.Reader // nil: Head is all
	Size int64     // whole length in bytes; -1 when the client did not say
}

// Request is what Serve sends to a backend.
type Request struct {
	Place  routing.Place
	Method string
	Path   string      // path and query that the backend is asked for
	Header http.Header // the client's, never modified; hop-by-hop headers stay behind
	Body   Body
	Tenant string // whose turn it is in the queue
	// Repeatable: the request may go to another backend after one has had it
	// and failed. Where it is false, only refused connections are retried.
	Repeatable bool
	Ready      time.Time // when the last byte that the decision needed had arrived
}

// Reply is the head of a backend's answer.
type Reply struct {
	Status  int
	Fields  field.List  // without hop-by-hop ones; Content-Length is among them where it is known
	Stream  bool        // server-sent events
	Trailer http.Header // names that may follow the body; nil when none were announced
	Lease   *routing.Lease
}

// Answer puts a backend's answer on the client's connection, in the dialect
// that the client speaks.
type Answer interface {
	// Begin is called once, when the first bytes of the body are there. It must
	// keep neither r nor its Fields.
	Begin(r *Reply) error
	// Write takes what one read from the backend brought, and has sent it when it
	// returns. It must not keep p.
	Write(p []byte) (int, error)
	// End is called once after Begin, unless the client left. broken is not nil
	// when the backend failed in the middle of its answer.
	End(trailer http.Header, broken error)
}

// Result is what is known of a request when Serve returns.
type Result struct {
	Endpoint, Variant, Backend string
	Decision                   routing.Decision
	Attempts                   int
	Status                     int   // as the backend answered; 0 when no answer began
	Broken                     error // what ended the answer after it began; ErrClientGone if the client left
	Stream                     bool
	Usage                      Usage
	FirstByte                  time.Duration // from the request being sent to the first byte of the body
	Overhead                   time.Duration // spent by this router: choosing, sending, passing on the first bytes
	Total                      time.Duration
	BytesIn, BytesOut          int64 // body bytes, towards the backend and towards the client
	Events                     int   // writes towards the client
}
