// Package field takes HTTP/1.1 header fields apart in place, for the heads of
// requests and of answers.
package field

import (
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Cut splits the first field, up to and including its CR LF, off text. It takes
// plain fields only: a token, a colon, at most one space, and a value of visible
// ASCII with white space only inside (RFC 9112 section 5). ok is false for any
// other, valid or not, which is then net/http's to read.
//
// name is canonical; it and value are parts of text, but for a name that was
// written otherwise.
func Cut(text string) (name, value, rest string, ok bool) {
	canonical, first := true, true // first letter of a word
	i := 0
	for ; i < len(text) && text[i] != ':'; i++ {
		c := text[i]
		if !httpguts.IsTokenRune(rune(c)) {
			return "", "", "", false
		}
		if first && c >= 'a' && c <= 'z' || !first && c >= 'A' && c <= 'Z' {
			canonical = false
		}
		first = c == '-'
	}
	if i == 0 || i == len(text) {
		return "", "", "", false
	}
	name = text[:i]
	if !canonical {
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	value, rest, ok = cutValue(text[i+1:])
	return name, value, rest, ok
}

// cutValue splits a value, and its line's end, off text.
func cutValue(text string) (value, rest string, ok bool) {
	i := 0
	for i < len(text) && (text[i] >= ' ' && text[i] < 0x7f || text[i] == '\t') {
		i++
	}
	value = strings.TrimPrefix(text[:i], " ")
	rest, ok = strings.CutPrefix(text[i:], "\r\n")
	bare := value == "" || value[0] > ' ' && value[len(value)-1] > ' '
	return value, rest, ok && bare
}
