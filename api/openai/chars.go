package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// chars is a place in a string: what of it has been read and not yet decoded.
type chars struct {
	escape uint8   // 0: none; 1: behind a backslash; 2 to 5: hex digits to come, plus 1
	code   rune    // the hex digits so far
	high   rune    // a high surrogate that waits for its low one; 0: none
	cut    [4]byte // the first bytes of a code point that the piece cut
	ncut   uint8   // how many
	odd    bool    // skip: the next byte is escaped
}

// text decodes string bytes and appends them to dst until dst is max bytes
// long; what follows then is skipped and not judged. It reports whether the
// string is over; if not, the input is used up. What it appends, and whether
// it fails, does not depend on how the input is cut into pieces.
func (l *lexer) text(dst []byte, max int) (_ []byte, end bool, err error) {
	dst, end, err = l.some(dst, max)
	if err != nil {
		return dst, false, err
	}
	if len(dst) >= max && !end {
		end = l.skip()
	}
	return dst[:min(len(dst), max)], end, nil
}

// firstSpecial returns how many bytes of p stand before the first that is special
// or not ASCII, -1 when none is. It is small enough to be inlined.
func firstSpecial(p []byte) int {
	for n := 0; n <= len(p)-wordSize; n += wordSize {
		w := binary.LittleEndian.Uint64(p[n : n+wordSize])
		if stop := (special(w, specials()) | w) & tops; stop != 0 {
			return n + bits.TrailingZeros64(stop)/8
		}
	}
	return -1
}

// short returns the rest of a string or key if all of it is in the piece, is
// short and needs no decoding; if not, it reads nothing. What it returns is a
// part of the piece.
func (l *lexer) short() (rest []byte, ok bool) {
	if l.str != (chars{}) {
		return nil, false
	}
	p := l.in[l.pos:min(l.pos+maxShort, len(l.in))]
	n := firstSpecial(p)
	if n < 0 || p[n] != '"' {
		return nil, false
	}
	l.pos += n + 1
	l.endString()
	return p[:n], true
}

// asIs reads printable ASCII, of which images are made in the main, and returns it
// as a part of the piece. It reads up to max bytes in whole blocks, and nothing
// when there is a backslash among them.
func (l *lexer) asIs(max int) []byte {
	const block = 4 * wordSize
	p := l.in[l.pos:min(l.pos+max, len(l.in))]
	if n := bytes.IndexByte(p, '"'); n >= 0 {
		p = p[:n]
	}
	if l.str != (chars{}) || len(p) < block || bytes.IndexByte(p, '\\') >= 0 {
		return nil
	}
	n := 0
	for ; n <= len(p)-block; n += block {
		q := p[n : n+block]
		a := binary.LittleEndian.Uint64(q)
		b := binary.LittleEndian.Uint64(q[wordSize:])
		c := binary.LittleEndian.Uint64(q[2*wordSize:])
		d := binary.LittleEndian.Uint64(q[3*wordSize:])
		if ((a-ones*' ')|(b-ones*' ')|(c-ones*' ')|(d-ones*' ')|a|b|c|d)&tops != 0 {
			break
		}
	}
	l.pos += n
	return p[:n]
}

// some is like text, but at max bytes, or a few more, it stops.
func (l *lexer) some(dst []byte, max int) ([]byte, bool, error) {
	for l.pos < len(l.in) && len(dst) < max {
		c := l.in[l.pos]
		var err error
		switch {
		case l.str.ncut > 0:
			dst, err = l.complete(dst, c)
		case l.str.escape > 0:
			dst, err = l.unescape(dst, c)
		case c == '"':
			dst = l.flush(dst)
			l.pos++
			l.endString()
			return dst, true, nil
		case c == '\\':
			l.str.escape = 1
			l.pos++
		case c < ' ':
			err = l.fail("a control character must be escaped")
		case l.str.high != 0:
			dst = l.flush(dst) // which may fill it
		default:
			dst, err = l.run(dst, max)
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}

// run appends the bytes up to the next one that neither stands for itself nor
// belongs to a short escape.
func (l *lexer) run(dst []byte, max int) ([]byte, error) {
	p := l.in[l.pos:]
	if room := max - len(dst); room < len(p) {
		p = p[:room]
	}
	dst = slices.Grow(dst, len(p))
	out := dst[len(dst) : len(dst)+len(p)]
	in, n, ascii := unquote(out, p)
	if !ascii {
		whole := n
		if in == len(p) {
			whole -= cutRune(out[:n])
		}
		if !utf8.Valid(out[:whole]) {
			return dst, notUTF8()
		}
		l.str.ncut = uint8(copy(l.str.cut[:], out[whole:n]))
		n = whole
	}
	l.pos += in
	return dst[:len(dst)+n], nil
}

// complete adds c to the code point that was cut.
func (l *lexer) complete(dst []byte, c byte) ([]byte, error) {
	l.str.cut[l.str.ncut] = c
	p := l.str.cut[:l.str.ncut+1]
	if utf8.FullRune(p) {
		if _, size := utf8.DecodeRune(p); size != len(p) {
			return dst, notUTF8()
		}
		dst = append(dst, p...)
		l.str.ncut = 0
	} else {
		l.str.ncut++
	}
	l.pos++
	return dst, nil
}

// unescape reads the byte c of an escape.
func (l *lexer) unescape(dst []byte, c byte) ([]byte, error) {
	s := &l.str
	if s.escape > 1 {
		digit := unhex(c)
		if digit < 0 {
			return dst, l.fail(`\u needs four hexadecimal digits`)
		}
		l.pos++
		s.code = s.code<<4 | digit
		s.escape--
		if s.escape == 1 {
			s.escape = 0
			dst = l.codePoint(dst)
		}
		return dst, nil
	}
	if c == 'u' {
		l.pos++
		s.escape, s.code = 5, 0
		return dst, nil
	}
	e := escaped[c]
	if e == 0 {
		return dst, l.fail(`a backslash must be followed by one of "\/bfnrtu`)
	}
	dst = append(l.flush(dst), e)
	l.pos++
	s.escape = 0
	return dst, nil
}

// codePoint appends what a \u escape stands for. A surrogate without its
// other half becomes U+FFFD, as encoding/json has it.
func (l *lexer) codePoint(dst []byte) []byte {
	s := &l.str
	if s.high != 0 {
		if r := utf16.DecodeRune(s.high, s.code); r != utf8.RuneError {
			s.high = 0
			return utf8.AppendRune(dst, r)
		}
	}
	dst = l.flush(dst)
	if 0xD800 <= s.code && s.code < 0xDC00 {
		s.high = s.code
		return dst
	}
	return utf8.AppendRune(dst, s.code)
}

// flush appends U+FFFD for a high surrogate that no low one followed.
func (l *lexer) flush(dst []byte) []byte {
	if l.str.high == 0 {
		return dst
	}
	l.str.high = 0
	return utf8.AppendRune(dst, utf8.RuneError)
}

// skip passes over string bytes. It reports whether the string is over.
func (l *lexer) skip() bool {
	p, from := l.in[l.pos:], 0
	for {
		n := bytes.IndexByte(p[from:], '"')
		if n < 0 {
			l.str.odd = escapes(p, l.str.odd)
			l.pos = len(l.in)
			return false
		}
		from += n + 1
		if n > 0 && p[from-2] != '\\' || !escapes(p[:from-1], l.str.odd) {
			l.pos += from
			l.endString()
			return true
		}
	}
}

// escapes reports whether the byte behind p is escaped, given whether the first
// byte of p is.
func escapes(p []byte, odd bool) bool {
	n := len(p)
	for n > 0 && p[n-1] == '\\' {
		n--
	}
	return ((len(p)-n)%2 == 1) != (odd && n == 0)
}

// maxShort is the length that a string read in one step is below. Words find the
// quote of a short string sooner than a call of bytes.IndexByte.
const maxShort = 32

// Words of eight bytes are looked at in one step.
const (
	wordSize = 8
	ones     = 0x0101010101010101
	tops     = 0x8080808080808080
)

// masks are what special needs. A loop takes them as an argument: of constants,
// the compiler would load each anew for every word.
type masks struct{ flip, least, slash, one uint64 }

func specials() masks {
	return masks{flip: ones * 2, least: ones * (' ' + 1), slash: ones * '\\', one: ones}
}

// special sets the top bit of the first byte of w that is a quote, a backslash
// or a control character, and maybe of later ones, and of bytes that are not
// ASCII. A byte below its subtrahend borrows, which sets its top bit; flipping
// bit 1 first puts the quote right behind the control characters and moves
// nothing across them. A borrow reaches only bytes behind the first.
func special(w uint64, m masks) uint64 {
	return ((w ^ m.flip) - m.least) | ((w ^ m.slash) - m.one)
}

// unquote copies p to dst, with short escapes replaced, up to a quote, another
// escape, a control character or the end. It returns how much of p that is, how
// much of dst, and whether it is all ASCII. dst must be at least as long as p;
// what is behind the part returned may change too.
func unquote(dst, p []byte) (in, out int, ascii bool) {
	var seen uint64
	for {
		n, other := plain(dst[out:], p[in:], specials())
		seen |= other
		in += n
		out += n
		if in+1 >= len(p) || p[in] != '\\' {
			break
		}
		c := escaped[p[in+1]]
		if c == 0 {
			break
		}
		dst[out] = c
		in += 2
		out++
	}
	return in, out, seen&tops == 0
}

// plain copies p to dst up to the first byte that is special. It returns how many
// bytes that are, and all of their bits: a top bit is set when not all is ASCII.
func plain(dst, p []byte, m masks) (n int, seen uint64) {
	dst = dst[:len(p)]
	for ; n <= len(p)-wordSize; n += wordSize {
		w := binary.LittleEndian.Uint64(p[n : n+wordSize])
		binary.LittleEndian.PutUint64(dst[n:n+wordSize], w)
		if stop := special(w, m) &^ w & tops; stop != 0 {
			bit := bits.TrailingZeros64(stop) &^ 7
			return n + bit/8, seen | w&(1<<bit-1)
		}
		seen |= w
	}
	for ; n < len(p) && p[n] >= ' ' && p[n] != '"' && p[n] != '\\'; n++ {
		dst[n] = p[n]
		seen |= uint64(p[n]) // sets a top bit, if any
	}
	return n, seen
}

// cutRune returns how many bytes at the end of p begin a code point and do
// not end it.
func cutRune(p []byte) int {
	for n := 1; n <= min(3, len(p)); n++ {
		c := p[len(p)-n]
		if utf8.RuneStart(c) {
			if utf8.FullRune(p[len(p)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// escaped has what a backslash and a byte stand for, 0 where they are no escape.
//
//nolint:gochecknoglobals // constant, but Go has no constant arrays
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unhex returns the value of a hexadecimal digit, -1 when c is none.
func unhex(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
