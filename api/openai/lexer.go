package openai

import "fmt"

// byteOrderMark is what some editors and shells begin every text with. It is
// passed over, as engines do (RFC 8259 section 8.1).
const byteOrderMark = "\ufeff"

// inMark: c may be byte i of a byte order mark.
func inMark(i int, c byte) bool { return i < len(byteOrderMark) && c == byteOrderMark[i] }

// maxDepth is how deep objects and arrays may nest in a body.
const maxDepth = 128

// token is a step in the structure of a JSON text. The insides of strings and
// of literals are not tokens: whoever gets a start reads them with text, skip
// or literal until they are over, then asks for the next token.
type token uint8

const (
	more         token = iota // nothing: the input is used up
	keyStart                  // the quote that opens a key
	stringStart               // the quote that opens a string
	literalStart              // the first byte of a number, true, false or null, not yet read
	openObject
	openArray
	closeObject
	closeArray
)

// state is what the lexer expects next.
type state uint8

const (
	start      state = iota // the body's opening brace
	value                   // a value
	valueOrEnd              // a value, or the end of an array that is empty so far
	key                     // a key
	keyOrEnd                // a key, or the end of an object that is empty so far
	colon                   // the colon behind a key
	after                   // a comma, or the end of the object or array
	inString                // string bytes
	inLiteral               // bytes of a number, true, false or null
	done                    // white space only
)

// lexer splits a JSON object (RFC 8259) into tokens. It takes its input in
// pieces, cut anywhere, and keeps nothing of a piece but a few bytes.
type lexer struct {
	in  []byte // the piece
	pos int    // the next byte of it
	off int    // length of all pieces before it

	state  state
	isKey  bool           // the string is a key
	depth  int            // objects and arrays that are open
	object bool           // the innermost is an object
	outer  [maxDepth]bool // the ones around them are

	str chars   // where in a string
	lit literal // where in a literal
}

// feed sets the next piece; the last one must have been used up.
func (l *lexer) feed(p []byte) {
	l.off += len(l.in)
	l.in, l.pos = p, 0
	for l.state == start && l.pos < len(p) && inMark(l.off+l.pos, p[l.pos]) {
		l.pos++
	}
}

// next reads up to and including the next token; of a literal, nothing.
func (l *lexer) next() (token, error) {
	for ; l.pos < len(l.in); l.pos++ {
		c := l.in[l.pos]
		switch c {
		case ' ', '\t', '\n', '\r':
		case ',':
			if l.state != after {
				return more, l.unexpected(c)
			}
			l.state = value
			if l.object {
				l.state = key
			}
		case ':':
			if l.state != colon {
				return more, l.unexpected(c)
			}
			l.state = value
		case '"':
			return l.quote()
		case '{', '[':
			return l.open(c)
		case '}', ']':
			return l.close(c)
		default:
			if l.state != value && l.state != valueOrEnd || !l.lit.begin(c) {
				return more, l.unexpected(c)
			}
			l.state = inLiteral
			return literalStart, nil
		}
	}
	return more, nil
}

// pass reads what is left of a value that depth levels are open around, without
// judging its strings. It reports whether the value is over.
func (l *lexer) pass(depth int) (end bool, err error) {
	for l.pos < len(l.in) && err == nil {
		switch l.state {
		case inString:
			l.skip()
		case inLiteral:
			_, _, err = l.literal()
		default:
			_, err = l.next()
		}
		if l.depth == depth && l.state == after {
			return true, err
		}
	}
	return false, err
}

// quote begins a key or a string.
func (l *lexer) quote() (token, error) {
	switch l.state {
	case value, valueOrEnd:
		l.pos++
		l.state, l.isKey = inString, false
		return stringStart, nil
	case key, keyOrEnd:
		l.pos++
		l.state, l.isKey = inString, true
		return keyStart, nil
	default:
		return more, l.unexpected('"')
	}
}

func (l *lexer) open(c byte) (token, error) {
	object := c == '{'
	if l.state != value && l.state != valueOrEnd && (l.state != start || !object) {
		return more, l.unexpected(c)
	}
	if l.depth == maxDepth {
		return more, tooDeep()
	}
	l.outer[l.depth] = l.object
	l.depth++
	l.object = object
	l.pos++
	if object {
		l.state = keyOrEnd
		return openObject, nil
	}
	l.state = valueOrEnd
	return openArray, nil
}

func (l *lexer) close(c byte) (token, error) {
	t, empty := closeArray, valueOrEnd
	if l.object {
		t, empty = closeObject, keyOrEnd
	}
	if l.state != after && l.state != empty || l.object != (c == '}') {
		return more, l.unexpected(c)
	}
	l.depth--
	l.object = l.outer[l.depth]
	l.pos++
	l.state = after
	if l.depth == 0 {
		l.state = done
	}
	return t, nil
}

// endString goes on behind a string's closing quote.
func (l *lexer) endString() {
	l.str = chars{}
	l.state = after
	if l.isKey {
		l.state = colon
	}
}

func (l *lexer) unexpected(c byte) error {
	var what string
	switch l.state {
	case start:
		return notObject()
	case value, valueOrEnd:
		what = "a value"
	case key, keyOrEnd:
		what = "a key in quotes"
	case colon:
		what = "a colon"
	case done:
		what = "nothing more"
	default:
		what = "a comma or the end of the object or array"
	}
	return l.fail(fmt.Sprintf("found %q where %s belongs", c, what))
}

// fail describes malformed JSON at the current byte.
func (l *lexer) fail(what string) error {
	return malformed(fmt.Sprintf("at byte %d, %s", l.off+l.pos, what))
}
