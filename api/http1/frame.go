package http1

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// facts are what counts of the header at the time of WriteHeader.
type facts struct {
	date     bool // has one, if only nil
	typed    bool // the Content-Type needs no guess
	identity bool // the body ends with the connection, as the handler wants it
	trailers bool
}

// declare takes the facts from a field of the header.
func (x *exchange) declare(name string, values []string) {
	switch name {
	case "Content-Length":
		if n, err := strconv.ParseInt(first(values), 10, 64); err == nil && n >= 0 {
			x.length = n
		}
	case "Content-Type":
		x.facts.typed = true
	case "Content-Encoding":
		x.facts.typed = x.facts.typed || first(values) != ""
	case "Transfer-Encoding":
		x.facts.typed = x.facts.typed || first(values) != ""
		x.facts.identity = first(values) == "identity"
	case "Date":
		x.facts.date = true
	case "Connection":
		x.closing = x.closing || httpguts.HeaderValuesContainsToken(values, "close")
	case "Trailer":
		x.announce(values)
	default:
		x.facts.trailers = x.facts.trailers || strings.HasPrefix(name, http.TrailerPrefix)
	}
}

// announce notes the trailers that the header's Trailer fields list.
func (x *exchange) announce(lists []string) {
	for _, names := range lists {
		x.facts.trailers = true
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name) {
				x.trailers = append(x.trailers, name)
			}
		}
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// appendFrame appends the fields that depend on the body, of which held and
// then p come first, and the end of the head.
func (x *exchange) appendFrame(b, held, p []byte, last bool) []byte {
	x.framed = true
	begins := held
	if len(begins) == 0 {
		begins = p
	}
	x.settleBody()
	isHead, hasBody := x.r.Method == http.MethodHead, bodyAllowed(x.status)
	if !x.facts.date {
		b = append(append(append(b, "Date: "...), x.c.server.now()...), "\r\n"...)
	}
	if last && x.length < 0 && hasBody && !x.facts.trailers && !x.facts.identity && (!isHead || len(begins) > 0) {
		x.length = int64(len(begins))
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), x.length, 10), "\r\n"...)
	}
	if !x.facts.typed && hasBody && len(begins) > 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(begins)...), "\r\n"...)
	}
	old := !x.r.ProtoAtLeast(1, 1)
	if !isHead && hasBody && x.length < 0 { // its end must show
		x.chunked = !old && !x.facts.identity
		x.closing = x.closing || !x.chunked
	}
	switch {
	case x.closing && !old:
		b = append(b, "Connection: close\r\n"...)
	case !x.closing && old:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	if x.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

// settleBody decides whether the connection outlives a request whose body the
// handler has not read to its end. Many clients read no answer before they
// have sent all, so it reads what is little; in full duplex that comes later.
func (x *exchange) settleBody() {
	switch {
	case x.c.server.stopping(), x.status == http.StatusSwitchingProtocols:
		x.closing = true
	case x.expects && x.body.state.Load() != whole:
		// Whether the client sends the body now is up to it.
		x.closing = true
	case !x.duplex && !x.closing && !x.body.drain():
		x.closing = true
	}
}

// appendHeader appends the handler's fields. Unless the answer only informs, it
// declares them.
func (x *exchange) appendHeader(b []byte, informs bool) []byte {
	for name, values := range x.header {
		if !informs {
			x.declare(name, values)
		}
		if httpguts.ValidHeaderFieldName(name) {
			b = x.appendOne(b, name, values, informs)
		}
	}
	if !informs {
		for i := range x.added {
			f := &x.added[i]
			value := [1]string{f.Value}
			x.declare(f.Name, value[:])
			b = x.appendOne(b, f.Name, value[:], false)
		}
	}
	return b
}

// appendOne appends a field, unless the framing has it or the answer must not.
func (x *exchange) appendOne(b []byte, name string, values []string, informs bool) []byte {
	switch name {
	case "Transfer-Encoding":
		return b
	case "Connection":
		if !informs {
			return b // ours to say
		}
	case "Content-Length":
		if x.length >= 0 && !informs && bodyAllowed(x.status) {
			b = append(strconv.AppendInt(append(b, "Content-Length: "...), x.length, 10), "\r\n"...)
		}
		return b
	case "Content-Type":
		if x.status == http.StatusNotModified {
			return b
		}
	}
	return appendField(b, name, values)
}

// appendTrailers appends those that were announced, and those that the handler
// marks with http.TrailerPrefix.
func (x *exchange) appendTrailers(b []byte) []byte {
	for _, name := range x.trailers {
		b = appendField(b, name, x.header[name])
	}
	for name, values := range x.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && httpguts.ValidHeaderFieldName(name) {
			b = appendField(b, name, values)
		}
	}
	return b
}

// appendField appends a field of each value, none of which can end its line.
func appendField(b []byte, name string, values []string) []byte {
	for _, v := range values {
		b = append(append(b, name...), ": "...)
		if v != "" && (v[0] <= ' ' || v[len(v)-1] <= ' ') {
			v = strings.Trim(v, " \t\r\n")
		}
		if strings.IndexByte(v, '\r') >= 0 || strings.IndexByte(v, '\n') >= 0 {
			v = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
		}
		b = append(append(b, v...), "\r\n"...)
	}
	return b
}

func appendStatus(b []byte, is11 bool, status int) []byte {
	version := "HTTP/1.0 "
	if is11 {
		version = "HTTP/1.1 "
	}
	b = append(strconv.AppendInt(append(b, version...), int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		return append(append(b, text...), "\r\n"...)
	}
	return append(strconv.AppendInt(append(b, "status code "...), int64(status), 10), "\r\n"...)
}

// bodyAllowed: answers of this status have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
