package api

import "bytes"

const (
	probeEvery = 8 << 10 // bytes of a body between two looks; an attachment of this length is always seen
	probeSize  = 64
	// attached is what a picture, a sound or a file counts for, in bytes of text: models make some hundred to two thousand
	// tokens of one, whatever its length in base64.
	attached = 4 << 10
)

// promptSize is the length of a body of total bytes that begins with head, with each attachment in base64 counted as
// attached: by its length, a picture would be taken for a prompt of hundreds of thousands of tokens. One that goes on
// behind head is taken to end with the body.
func promptSize(head []byte, total int) int {
	size, passed := total, 0 // passed: where the last attachment ended, or the last look at what is none
	for at := probeEvery; at+probeSize <= len(head); at = passed + probeEvery {
		if !encoded(head[at : at+probeSize]) {
			passed = at
			continue
		}
		begin := passed + 1 + bytes.LastIndexByte(head[passed:at], '"')
		end := bytes.IndexByte(head[at:], '"')
		if end < 0 {
			return size - max(0, total-begin-attached)
		}
		end += at
		size -= max(0, end-begin-attached)
		passed = end
	}
	return size
}

// encoded reports whether p is from the middle of base64 data, in one of its alphabets: no text has so many letters of
// both cases, digits and nothing else in a row.
func encoded(p []byte) bool {
	var upper, lower, digit bool
	for _, c := range p {
		switch {
		case c >= 'a' && c <= 'z':
			lower = true
		case c >= 'A' && c <= 'Z':
			upper = true
		case c >= '0' && c <= '9':
			digit = true
		case c != '+' && c != '/' && c != '\\' && c != '-' && c != '_': // a slash may be escaped
			return false
		}
	}
	return upper && lower && digit
}
