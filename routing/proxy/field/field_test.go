package field

import (
	"bytes"
	"testing"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ in, name, value, rest string }{
		{"Content-Type: a/b; c=d\r\nX: 1\r\n", "Content-Type", "a/b; c=d", "X: 1\r\n"},
		{"content-type:a\r\n\r\n", "Content-Type", "a", "\r\n"},
		{"x-UP: a\tb\r\n", "X-Up", "a\tb", ""},
		{"Empty:\r\n", "Empty", "", ""},
	} {
		name, value, rest, ok := Cut(c.in)
		if !ok || name != c.name || value != c.value || rest != c.rest {
			t.Errorf("%q: %q, %q, %q, %v", c.in, name, value, rest, ok)
		}
	}
	for _, in := range []string{
		"", "\r\n", "A", "A\r\n", ": a\r\n", "A : a\r\n", " A: a\r\n", "A:  a\r\n", "A: a \r\n", "A: a", "A: a\n", "A: a\r", "A: \x00\r\n",
		"A: \x80\r\n", "\xc3: a\r\n", "A: a\rb\r\n",
	} {
		if name, value, _, ok := Cut(in); ok {
			t.Errorf("%q was taken as %q, %q", in, name, value)
		}
	}
}

// What is told by words of eight is what is told by bytes.
func TestVisible(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			for _, beside := range []byte{' ', '~', 0, 0x7f, 0x80, 0xff} {
				b := bytes.Repeat([]byte{'a'}, 20)
				b[at], b[min(at+1, 19)] = byte(c), beside
				want := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r > '~' })
				if want < 0 {
					want = len(b)
				}
				if got := visible(string(b)); got > want || got != min(want/8*8, 16) {
					t.Fatalf("%q: %d of %d", b, got, want)
				}
			}
		}
	}
}
