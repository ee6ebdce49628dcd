package api

import (
	"net/http"
	"time"

	"github.com/warmring/warmring/routing/proxy/field"
)

// client is the connection towards the client. Each write has to be taken
// within the write timeout, so that a client that stops reading frees what its
// request holds.
type client struct {
	http.ResponseWriter
	control http.ResponseController
	timeout time.Duration
	status  int  // 0: nothing has been sent
	armed   bool // just now, for the head
	abort   bool // the connection must not look as if the answer were complete
}

func (c *client) WriteHeader(status int) {
	c.status = status
	c.arm()
	c.armed = true // what follows the head comes with it
	c.ResponseWriter.WriteHeader(status)
}

// addFields adds fields to the head, of whose names the Header has none. Our own
// server takes them as they are.
func (c *client) addFields(l field.List) {
	if direct, ok := c.ResponseWriter.(interface{ AddFields(l field.List) }); ok {
		direct.AddFields(l)
		return
	}
	l.AddTo(c.Header())
}

func (c *client) Write(p []byte) (int, error) {
	if !c.armed {
		c.arm()
	}
	c.armed = false
	return c.ResponseWriter.Write(p)
}

// FlushError sends what was written.
func (c *client) FlushError() error { return c.control.Flush() }

// arm starts the write timeout. Connections that know no deadlines, as in
// tests of a handler alone, go without.
func (c *client) arm() { _ = c.control.SetWriteDeadline(time.Now().Add(c.timeout)) }
