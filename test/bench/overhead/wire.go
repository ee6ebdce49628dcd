package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

var (
	errHeadTooLong = errors.New("message head does not fit the buffer")
	errMalformed   = errors.New("malformed HTTP/1.1 message")
)

// messages reads one HTTP/1.1 message after another from a byte stream, requests and responses
// alike. It knows just enough of RFC 9112 to be a fair stopwatch: Content-Length and chunked
// framing, no trailers with meaning, no obsolete line folding.
type messages struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] has been read and not yet consumed
}

// head is the start line and the header fields of one message. It points into the reader's
// buffer, so it is valid only until the next read.
type head struct {
	start   []byte
	fields  []byte
	length  int64 // Content-Length; -1 when there is none
	chunked bool
	close   bool
}

func newMessages(src io.Reader, size int) *messages {
	return &messages{src: src, buf: make([]byte, size)}
}

// fill reads once more, after making room at the end of the buffer.
func (m *messages) fill() error {
	if m.r == m.w {
		m.r, m.w = 0, 0
	}
	if m.w == len(m.buf) {
		if m.r == 0 {
			return errHeadTooLong
		}
		m.w = copy(m.buf, m.buf[m.r:m.w])
		m.r = 0
	}
	n, err := m.src.Read(m.buf[m.w:])
	m.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// head reads up to the empty line. io.EOF means that the stream ended between two messages,
// io.ErrUnexpectedEOF that it ended inside one.
func (m *messages) head() (head, error) {
	for {
		if end := bytes.Index(m.buf[m.r:m.w], []byte("\r\n\r\n")); end >= 0 {
			raw := m.buf[m.r : m.r+end+2]
			m.r += end + 4
			return parseHead(raw)
		}
		had := m.w - m.r
		if err := m.fill(); err != nil {
			if had > 0 {
				err = inside(err)
			}
			return head{}, err
		}
	}
}

func parseHead(raw []byte) (head, error) {
	start, fields, ok := bytes.Cut(raw, []byte("\r\n"))
	if !ok || len(start) == 0 {
		return head{}, fmt.Errorf("%w: no start line", errMalformed)
	}
	h := head{start: start, fields: fields, length: -1}
	if v := h.field("content-length"); v != nil {
		n, err := strconv.ParseUint(string(v), 10, 62)
		if err != nil {
			return head{}, fmt.Errorf("%w: Content-Length %q", errMalformed, v)
		}
		h.length = int64(n)
	}
	h.chunked = bytes.EqualFold(h.field("transfer-encoding"), []byte("chunked"))
	h.close = bytes.EqualFold(h.field("connection"), []byte("close"))
	return h, nil
}

// field returns the value of the first header field with that name, nil when there is none.
func (h head) field(name string) []byte {
	rest := h.fields
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		rest = after
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// body hands the decoded body to sink piece by piece, as it arrives.
func (m *messages) body(h head, sink func([]byte)) error {
	if h.chunked {
		return m.chunks(sink)
	}
	return m.exactly(max(h.length, 0), sink)
}

func (m *messages) exactly(n int64, sink func([]byte)) error {
	for n > 0 {
		if m.r == m.w {
			if err := m.fill(); err != nil {
				return inside(err)
			}
		}
		piece := m.buf[m.r:min(m.w, m.r+int(min(n, int64(len(m.buf)))))]
		m.r += len(piece)
		n -= int64(len(piece))
		sink(piece)
	}
	return nil
}

// chunks decodes the chunked framing of RFC 9112 section 7.1.
func (m *messages) chunks(sink func([]byte)) error {
	for {
		line, err := m.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
		if err != nil {
			return fmt.Errorf("%w: chunk size %q", errMalformed, line)
		}
		if size == 0 {
			return m.trailers()
		}
		if err := m.exactly(int64(size), sink); err != nil {
			return err
		}
		if line, err = m.line(); err != nil {
			return err
		}
		if len(line) > 0 {
			return fmt.Errorf("%w: chunk longer than its size", errMalformed)
		}
	}
}

func (m *messages) trailers() error {
	for {
		line, err := m.line()
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

func (m *messages) line() ([]byte, error) {
	for {
		if end := bytes.Index(m.buf[m.r:m.w], []byte("\r\n")); end >= 0 {
			line := m.buf[m.r : m.r+end]
			m.r += end + 2
			return line, nil
		}
		if err := m.fill(); err != nil {
			return nil, inside(err)
		}
	}
}

// inside turns the end of the stream into the fact that a message was cut short.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
