package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll reads messages until the stream ends and joins their bodies with "|".
func readAll(src io.Reader, size int) (bodies string, err error) {
	m := newMessages(src, size)
	var b strings.Builder
	for {
		h, err := m.head()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		if err := m.body(h, func(p []byte) { b.Write(p) }); err != nil {
			return b.String(), err
		}
		b.WriteByte('|')
	}
}

func TestMessages(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("z", 500)
	tests := []struct {
		name, in, want string
		err            error
	}{
		{name: "length", in: ok + "Content-Length: 5\r\n\r\nhello", want: "hello|"},
		{name: "pipelined", in: ok + "content-length:1\r\n\r\na" + ok + "CONTENT-LENGTH: 2 \r\n\r\nbc", want: "a|bc|"},
		{name: "no body", in: "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", want: "|"},
		{name: "chunks", in: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", want: "abc0123456789|"},
		{name: "trailers", in: ok + "Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n" + ok + "\r\n", want: "a||"},
		{name: "body longer than the buffer", in: ok + "Content-Length: 500\r\n\r\n" + long, want: long + "|"},
		{name: "chunk longer than the buffer", in: ok + "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + long + "\r\n0\r\n\r\n", want: long + "|"},
		{name: "cut in the head", in: ok + "Content-Le", err: io.ErrUnexpectedEOF},
		{name: "cut in the body", in: ok + "Content-Length: 5\r\n\r\nhel", want: "hel", err: io.ErrUnexpectedEOF},
		{name: "cut between chunks", in: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", want: "abc", err: io.ErrUnexpectedEOF},
		{name: "cut before the last line", in: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", want: "abc", err: io.ErrUnexpectedEOF},
		{name: "chunk with a wrong size", in: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", want: "ab", err: errMalformed},
		{name: "chunk size is no number", in: ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", err: errMalformed},
		{name: "length is no number", in: ok + "Content-Length: -5\r\n\r\n", err: errMalformed},
		{name: "no start line", in: "\r\n\r\n", err: errMalformed},
		{name: "head too long", in: ok + "X: " + long + "\r\n\r\n", err: errHeadTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(src, 128)
				if got != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
					t.Errorf("%s: bodies %q, error %v; want %q, %v", name, got, err, tt.want, tt.err)
				}
			}
		})
	}
}

func TestField(t *testing.T) {
	h, err := parseHead([]byte("GET / HTTP/1.1\r\nX-Bench-Events-Not: 1\r\nX-BENCH-Events: 20\r\nConnection: Close\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := h.field(eventsField); string(got) != "20" {
		t.Errorf("events %q", got)
	}
	if h.field("x-bench") != nil {
		t.Error("found a field by the beginning of its name")
	}
	if !h.close || h.chunked || h.length != -1 {
		t.Errorf("close %v, chunked %v, length %d", h.close, h.chunked, h.length)
	}
}

// FuzzMessages asks that the reader neither panics nor depends on how the bytes are cut up.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 204 No\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err1 := readAll(bytes.NewReader(in), 128)
		split, err2 := readAll(iotest.OneByteReader(bytes.NewReader(in)), 128)
		if whole != split || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q, %v in one piece; %q, %v byte by byte", whole, err1, split, err2)
		}
	})
}
