package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// errDied reports that a fault took the connection away.
var errDied = errors.New("modelserver: the fault reset the connection")

// call is one request and its answer, with the fault it has to suffer.
type call struct {
	*Server
	r      *http.Request
	w      http.ResponseWriter
	body   []byte
	id     string
	grief  grief
	events int  // sent, or attempted
	begun  bool // headers are out
}

// handler turns an inference handler, which returns the error to answer with,
// into an HTTP one.
func (s *Server) handler(serve func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Server: s, r: r, w: w, id: s.identify(w, r)}
		s.requests.Add(1)
		err := c.read()
		if err == nil {
			c.grief = s.faults.take(false)
			err = c.suffer(r.Context())
		}
		if err == nil {
			err = serve(c)
		}
		if err != nil {
			c.fail(err)
		}
	}
}

// probe wraps a handler of health, ping, models or metrics.
func (s *Server) probe(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Server: s, r: r, w: w, id: s.identify(w, r), grief: s.faults.take(true)}
		if err := c.suffer(r.Context()); err != nil {
			c.fail(err)
			return
		}
		serve(w, r)
	}
}

// identify sets the headers that every answer has and returns the request's id.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		id = s.cfg.ID + "-" + strconv.FormatInt(s.ids.Add(1), 10)
	}
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Modelserver", s.cfg.ID)
	return id
}

// read takes in the whole body, so that net/http watches for the client's end.
func (c *call) read() error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.cfg.MaxBody))
	c.body = body
	return err
}

// suffer applies the faults that come before any answer.
func (c *call) suffer(ctx context.Context) error {
	switch c.grief.Kind {
	case Hang:
		return c.grief.hold(ctx)
	case Status:
		if c.grief.RetryAfter > 0 {
			c.w.Header().Set("Retry-After", strconv.Itoa(c.grief.RetryAfter))
		}
		return newError(c.grief.Status, "", "%s (fault)", http.StatusText(c.grief.Status))
	case Die:
		if c.grief.After == 0 {
			return c.die()
		}
	default:
	}
	return nil
}

// fail answers with err if an answer is still possible.
func (c *call) fail(err error) {
	api := asAPIError(err)
	switch {
	case errors.Is(err, errDied):
	case c.begun || api == nil: // the answer must not look complete to a client that is there
		_ = c.die() // which reports only that it did
	default:
		c.w.Header().Set("Content-Type", "application/json")
		c.w.WriteHeader(api.Code)
		_ = json.NewEncoder(c.w).Encode(map[string]*apiError{"error": api}) // the client may have left
	}
}

// die resets the connection.
func (c *call) die() error {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return errors.Join(errDied, err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the client sees an orderly end
	}
	return errors.Join(errDied, conn.Close())
}

// begin sends the headers of a stream. vLLM sends them before the first token.
func (c *call) begin() error {
	c.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	c.w.Header().Set("Cache-Control", "no-cache")
	c.begun = true
	c.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(c.w).Flush()
}

// event is one server-sent event. Its name may be empty.
type event struct {
	name string
	data any // rawData, or a value for encoding/json
}

// rawData is the data of an event that is not JSON.
type rawData string

// send writes one event and flushes it.
func (c *call) send(e event) error {
	if raw, ok := e.data.(rawData); ok {
		return c.sendRaw(e.name, []byte(raw))
	}
	data, err := json.Marshal(e.data)
	if err != nil {
		return fmt.Errorf("modelserver: encode an event: %w", err)
	}
	return c.sendRaw(e.name, data)
}

// sendRaw is send with encoded data.
func (c *call) sendRaw(name string, data []byte) error {
	if err := c.cut(); err != nil {
		return err
	}
	text := make([]byte, 0, len(data)+len(name)+16)
	if name != "" {
		text = append(append(append(text, "event: "...), name...), '\n')
	}
	text = append(append(append(text, "data: "...), data...), "\n\n"...)
	if _, err := c.w.Write(text); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// cut applies the faults that come after some events.
func (c *call) cut() error {
	due := c.events >= c.grief.After
	c.events++
	switch {
	case due && c.grief.Kind == Die:
		return c.die()
	case due && c.grief.Kind == Stall:
		return c.grief.hold(c.r.Context())
	}
	return nil
}

// reply sends a body that is not streamed. A fault that strikes after an event
// strikes in the middle of it, so the length is stated first.
func (c *call) reply(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("modelserver: encode a body: %w", err)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	half := 0
	if c.grief.Kind == Die || c.grief.Kind == Stall {
		half = len(data) / 2
		c.grief.After = 0
	}
	c.begun = true
	if half > 0 {
		if _, err := c.w.Write(data[:half]); err != nil {
			return err
		}
		if err := http.NewResponseController(c.w).Flush(); err != nil {
			return err
		}
		if err := c.cut(); err != nil {
			return err
		}
	}
	_, err = c.w.Write(data[half:])
	return err
}
