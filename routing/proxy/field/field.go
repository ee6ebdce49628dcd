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
	i := visible(text)
	for i < len(text) && (text[i] >= ' ' && text[i] < 0x7f || text[i] == '\t') {
		i++
	}
	value = strings.TrimPrefix(text[:i], " ")
	rest, ok = strings.CutPrefix(text[i:], "\r\n")
	bare := value == "" || value[0] > ' ' && value[len(value)-1] > ' '
	return value, rest, ok && bare
}

// visible returns how many bytes text begins with, in words of eight, that are
// all visible ASCII or spaces.
func visible(text string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		t := text[i : i+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		// The top bit of a byte is set by w where it is not ASCII, by w+1 where it is
		// DEL, and by w-' ' where it is a control character; a carry out of a byte
		// needs one that is refused.
		if (w|(w+ones)|(w-ones*' '))&tops != 0 {
			break
		}
	}
	return i
}
