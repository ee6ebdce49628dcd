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

// state is what the lexer expects next. It is numbered together with the tokens,
// so that the grammar can lead to either.
type state = token

const (
	more token = iota // nothing: the input is used up

	start        // the body's opening brace
	value        // a value
	valueOrEnd   // a value, or the end of an array that is empty so far
	key          // a key
	keyOrEnd     // a key, or the end of an object that is empty so far
	colon        // the colon behind a key
	afterMember  // a comma, or the end of the object
	afterElement // a comma, or the end of the array
	done         // white space only

	keyStart     // the quote that opens a key
	stringStart  // the quote that opens a string
	literalStart // the first byte of a number, true, false or null, not yet read
	openObject
	openArray
	closeObject
	closeArray

	inString  // string bytes
	inLiteral // bytes of a number, true, false or null
)

// class is what a byte can be in the structure of a JSON text.
type class uint8

const (
	other class = iota
	space
	comma
	colonSign
	quote
	openBrace
	openBracket
	closeBrace
	closeBracket
	literalByte // the first one of a number, true, false or null
)

//nolint:gochecknoglobals // constant, but Go has no constant arrays
var classes = [256]class{
	' ': space, '\t': space, '\n': space, '\r': space,
	',': comma, ':': colonSign, '"': quote,
	'{': openBrace, '[': openBracket, '}': closeBrace, ']': closeBracket,
	'-': literalByte, '0': literalByte, '1': literalByte, '2': literalByte, '3': literalByte, '4': literalByte,
	'5': literalByte, '6': literalByte, '7': literalByte, '8': literalByte, '9': literalByte,
	't': literalByte, 'f': literalByte, 'n': literalByte,
}

// grammar has the token that a byte makes, by the state and its class, or the
// next state when it makes none; more where no such byte belongs. The lengths
// are a power of two so that a mask keeps every index in range.
//
//nolint:gochecknoglobals // constant, but Go has no constant arrays
var grammar = [16][16]token{
	start: {space: start, openBrace: openObject},
	value: {space: value, quote: stringStart, literalByte: literalStart, openBrace: openObject, openBracket: openArray},
	valueOrEnd: {
		space: valueOrEnd, quote: stringStart, literalByte: literalStart, openBrace: openObject, openBracket: openArray,
		closeBracket: closeArray,
	},
	key:          {space: key, quote: keyStart},
	keyOrEnd:     {space: keyOrEnd, quote: keyStart, closeBrace: closeObject},
	colon:        {space: colon, colonSign: value},
	afterMember:  {space: afterMember, comma: key, closeBrace: closeObject},
	afterElement: {space: afterElement, comma: value, closeBracket: closeArray},
	done:         {space: done},
}

// lexer splits a JSON object (RFC 8259) into tokens. It takes its input in
// pieces, cut anywhere, and keeps nothing of a piece but a few bytes.
type lexer struct {
	in  []byte // the piece
	pos int    // the next byte of it
	off int    // length of all pieces before it

	state state
	after state           // what follows a value of the innermost object or array
	isKey bool            // the string is a key
	depth int             // objects and arrays that are open
	outer [maxDepth]state // after, of the ones around the innermost

	str chars   // where in a string
	lit literal // where in a literal
}

// reset prepares for another body.
func (l *lexer) reset() { *l = lexer{state: start, after: done} }

// feed sets the next piece; the last one must have been used up.
func (l *lexer) feed(p []byte) {
	l.off += len(l.in)
	l.in, l.pos = p, 0
	for l.state == start && l.pos < len(p) && inMark(l.off+l.pos, p[l.pos]) {
		l.pos++
	}
}

// next reads up to and including the next token; of a literal, nothing.
func (l *lexer) next() (t token, err error) {
	for ; l.pos < len(l.in); l.pos++ {
		c := l.in[l.pos]
		switch t = grammar[l.state&15][classes[c]&15]; t {
		case more:
			return more, l.unexpected(c)
		case keyStart, stringStart:
			l.state, l.isKey = inString, t == keyStart
		case literalStart:
			l.beginLiteral(c)
			return t, nil
		case openObject, openArray:
			l.state, err = l.open(t)
		case closeObject, closeArray:
			l.state = l.close()
		default:
			l.state = t
			continue
		}
		l.pos++
		return t, err
	}
	return more, nil
}

// open begins an object or array. It returns the state then.
func (l *lexer) open(t token) (state, error) {
	if l.depth == maxDepth {
		return more, tooDeep()
	}
	l.outer[l.depth] = l.after
	l.depth++
	if t == openObject {
		l.after = afterMember
		return keyOrEnd, nil
	}
	l.after = afterElement
	return valueOrEnd, nil
}

// close ends the innermost object or array. It returns the state then.
func (l *lexer) close() state {
	l.depth--
	l.after = l.outer[l.depth]
	return l.after
}

// pass reads what is left of a value that depth levels are open around, and
// writes it to out as compact JSON; where out is full, it judges the structure
// only. It reports whether the value is over.
func (l *lexer) pass(depth int, out *builder) (end bool, err error) {
	switch l.state {
	case inString:
		err = l.passString(out)
	case inLiteral:
		err = l.passLiteral(out)
	default:
	}
	end = l.depth == depth && l.state == l.after
	pos, at := l.pos, l.state // in memory, each step would wait for the last one's store
	for pos < len(l.in) && !end && err == nil {
		c := l.in[pos]
		t := grammar[at&15][classes[c]&15]
		if t != more && t <= done {
			at = t
			pos++
			continue
		}
		switch t {
		case keyStart, stringStart:
			pos, err = l.passQuote(pos+1, t == keyStart, out)
			at = l.state
		case literalStart:
			l.pos = pos
			l.beginLiteral(c)
			err = l.passLiteral(out)
			pos, at = l.pos, l.state
		case openObject, openArray:
			at, err = l.open(t)
			out.writeByte(c)
			pos++
		case closeObject, closeArray:
			at = l.close()
			end = l.depth == depth
			out.writeByte(c)
			pos++
		default:
			l.pos, l.state = pos, at
			return false, l.unexpected(c)
		}
	}
	l.pos, l.state = pos, at
	return end, err
}

// passQuote is pass for a string or key, the quote of which is before pos. It
// returns how far it went.
func (l *lexer) passQuote(pos int, isKey bool, out *builder) (int, error) {
	p := l.in[pos:min(pos+maxShort, len(l.in))]
	l.state, l.isKey = inString, isKey
	full := out.full()
	if n := firstSpecial(p); n >= 0 && p[n] == '"' {
		if !full {
			out.writeByte(quoteByte)
			out.write(p[:n])
			out.writeByte(quoteByte)
		}
		l.endString()
		return pos + n + 1, nil
	}
	out.writeByte(quoteByte)
	l.pos = pos
	err := l.passString(out)
	return l.pos, err
}

// passString is pass for the rest of a string or key.
func (l *lexer) passString(out *builder) (err error) {
	if out.full() {
		l.skip()
		return nil
	}
	var end bool
	if out.buf, end, err = l.text(out.buf, out.stop); end {
		out.writeByte(quoteByte)
	}
	return err
}

// passLiteral is pass for the rest of a literal.
func (l *lexer) passLiteral(out *builder) error {
	p, end, err := l.literal()
	out.write(p)
	if end {
		out.writeByte(',')
	}
	return err
}

// endString goes on behind a string's closing quote.
func (l *lexer) endString() {
	l.str = chars{}
	l.state = l.after
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
