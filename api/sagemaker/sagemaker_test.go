package sagemaker

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/warmring/warmring/routing/proxy"
)

func TestValidator(t *testing.T) {
	v := NewValidator()
	for _, c := range []struct {
		endpoint, header, value string
		stream, ok              bool
	}{
		{endpoint: "llama-3-8b", ok: true},
		{endpoint: strings.Repeat("a", 63), ok: true},
		{endpoint: strings.Repeat("a", 64)},
		{endpoint: "-a"},
		{endpoint: "a-"},
		{endpoint: "a_b"},
		{endpoint: "a/b"},
		{header: HeaderPrefixAwareID, value: "tenant 1 (eu)", ok: true},
		{header: HeaderPrefixAwareID, value: ""},
		{header: HeaderPrefixAwareID, value: strings.Repeat("x", 64), ok: true},
		{header: HeaderPrefixAwareID, value: strings.Repeat("x", 65)},
		{header: HeaderPrefixAwareID, value: " x"},
		{header: HeaderPrefixAwareID, value: "é"},
		{header: headerInferenceID, value: strings.Repeat("x", 65)},
		{header: headerAttributes, value: strings.Repeat("x", 1024), ok: true},
		{header: headerAttributes, value: strings.Repeat("x", 1025)},
		{header: headerAttributes, value: "tab\tno"},
		{header: headerSessionID, value: "NEW_SESSION", ok: true},
		{header: headerSessionID, value: "NEW_SESSION", stream: true},
		{header: headerSessionID, value: "a-b", stream: true, ok: true},
		{header: headerSessionID, value: "a_b"},
		{header: headerSessionID, value: strings.Repeat("s", 257)},
		{header: HeaderTargetVariant, value: "All-Traffic", ok: true},
		{header: HeaderTargetVariant, value: "a b"},
		{header: HeaderComponent, value: strings.Repeat("c", 64)},
		{header: headerHostname, value: "-"},
		{header: headerTargetModel, value: strings.Repeat("m", 1025)},
		{header: headerTargetModel, value: strings.Repeat("m", 1025), stream: true, ok: true},
		{header: "Content-Type", value: "", ok: true},
		{header: "Content-Type", value: strings.Repeat("t", 1025)},
	} {
		h := http.Header{}
		if c.header != "" {
			h[c.header] = []string{c.value}
			c.endpoint = "llama"
		}
		err := v.Check(c.endpoint, h, c.stream)
		if (err == nil) != c.ok {
			t.Errorf("%s %s=%.20q stream %v: %v", c.endpoint, c.header, c.value, c.stream, err)
		}
		if invalid, is := errors.AsType[*ValidationError](err); err != nil && (!is || c.header != "" && invalid.Field != c.header) {
			t.Errorf("%s: the error names %v", c.header, err)
		}
	}
}

type recorder struct{ *httptest.ResponseRecorder }

func (recorder) FlushError() error { return nil }

// Our frames are those of the SDK's encoder, byte for byte.
func TestFrame(t *testing.T) {
	for _, size := range []int{0, 1, 2, 200, 70000} {
		payload := bytes.Repeat([]byte{'p'}, size)
		var want bytes.Buffer
		err := eventstream.NewEncoder().Encode(&want, eventstream.Message{
			Headers: eventstream.Headers{
				{Name: ":message-type", Value: eventstream.StringValue("event")},
				{Name: ":event-type", Value: eventstream.StringValue("PayloadPart")},
				{Name: ":content-type", Value: eventstream.StringValue("application/octet-stream")},
			},
			Payload: payload,
		})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := headers("event", ":event-type", "PayloadPart", "application/octet-stream")
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFrame([]byte("x"), encoded, payload); string(got) != "x"+want.String() {
			t.Errorf("%d bytes:\ngot  %q\nwant %q", size, got, want.String())
		}
	}
}

// What goes in as pieces of any size comes out of the SDK's decoder.
func TestLargePieces(t *testing.T) {
	w := recorder{httptest.NewRecorder()}
	a := NewStream(w, "llama", "blue")
	if err := a.Begin(&proxy.Reply{Status: 200}); err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16+1)
	if _, err := a.Write(sent); err != nil {
		t.Fatal(err)
	}
	a.Fail(errors.New("a bug"))
	var got []byte
	in, last := bytes.NewReader(w.Body.Bytes()), ""
	for in.Len() > 0 {
		m, err := eventstream.NewDecoder().Decode(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last = m.Headers.Get(":message-type").String(); last == "event" {
			got = append(got, m.Payload...)
		} else if kind := m.Headers.Get(":exception-type").String(); kind != "InternalStreamFailure" {
			t.Errorf("the exception is a %s", kind)
		}
	}
	if !bytes.Equal(got, sent) || last != "exception" {
		t.Errorf("%d of %d bytes, ending in %s", len(got), len(sent), last)
	}
}

func BenchmarkFrame(b *testing.B) {
	a := NewStream(discard{}, "llama", "blue")
	if err := a.Begin(&proxy.Reply{Status: 200}); err != nil {
		b.Fatal(err)
	}
	p := []byte(strings.Repeat("x", 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Write(p); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) FlushError() error           { return nil }
