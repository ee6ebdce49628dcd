package openai

// literal is a place in a number, true, false or null: what may follow the
// bytes read so far. The grammar of numbers is RFC 8259 section 6.
type literal struct {
	first byte // the literal's first byte, which tells its type
	rest  string
	num   number
}

// number is a place in a number.
type number uint8

const (
	noNumber number = iota
	minus           // behind the sign: a digit must follow
	zero            // behind a leading zero, which ends the integer
	integer         // behind a digit of the integer
	point           // behind the point: a digit must follow
	fraction        // behind a digit of the fraction
	exponent        // behind the e: a sign or a digit must follow
	expSign         // behind the exponent's sign: a digit must follow
	expDigit        // behind a digit of the exponent
)

// beginLiteral begins a literal that begins with c.
func (l *lexer) beginLiteral(c byte) {
	l.state, l.lit = inLiteral, literal{first: c}
	switch c {
	case 't':
		l.lit.rest = "true"
	case 'f':
		l.lit.rest = "false"
	case 'n':
		l.lit.rest = "null"
	}
}

// literal reads literal bytes and returns them, and whether they are the last.
func (l *lexer) literal() (p []byte, end bool, err error) {
	from := l.pos
	if l.lit.rest != "" {
		end, err = l.word()
	} else {
		end, err = l.number()
	}
	if end {
		l.state = l.after
	}
	return l.in[from:l.pos], end, err
}

// word reads bytes of true, false or null.
func (l *lexer) word() (end bool, err error) {
	for ; l.pos < len(l.in) && l.lit.rest != ""; l.pos++ {
		if l.in[l.pos] != l.lit.rest[0] {
			return false, l.fail("a value must be an object, array, string, number, true, false or null")
		}
		l.lit.rest = l.lit.rest[1:]
	}
	return l.lit.rest == "", nil
}

// number reads bytes of a number.
func (l *lexer) number() (end bool, err error) {
	n := l.lit.num
	for ; l.pos < len(l.in); l.pos++ {
		c := l.in[l.pos]
		if isDigit(c) && (n == integer || n == fraction) {
			continue
		}
		next := n.step(c)
		if next == noNumber {
			if !n.complete() {
				return false, l.fail("a number is not complete")
			}
			return true, nil
		}
		n = next
	}
	l.lit.num = n
	return false, nil
}

// step returns the place behind c, noNumber when c is not part of the number.
func (n number) step(c byte) number {
	digit := isDigit(c)
	switch {
	case n == noNumber && c == '-':
		return minus
	case (n == noNumber || n == minus) && c == '0':
		return zero
	case (n == noNumber || n == minus || n == integer) && digit:
		return integer
	case (n == zero || n == integer) && c == '.':
		return point
	case (n == point || n == fraction) && digit:
		return fraction
	case (n == zero || n == integer || n == fraction) && (c == 'e' || c == 'E'):
		return exponent
	case n == exponent && (c == '+' || c == '-'):
		return expSign
	case (n == exponent || n == expSign || n == expDigit) && digit:
		return expDigit
	}
	return noNumber
}

// complete reports whether a number may end at n.
func (n number) complete() bool {
	return n == zero || n == integer || n == fraction || n == expDigit
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
