package field

import "testing"

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
