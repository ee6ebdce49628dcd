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

// begin reports whether a literal can begin with c.
func (t *literal) begin(c byte) bool {
	*t = literal{first: c}
	switch {
	case c == 't':
		t.rest = "true"
	case c == 'f':
		t.rest = "false"
	case c == 'n':
		t.rest = "null"
	default:
		return c == '-' || isDigit(c)
	}
	return true
}

// literal reads literal bytes and returns them, and whether they are the last.
func (l *lexer) literal() (p []byte, end bool, err error) {
	from := l.pos
	if l.lit.rest != "" {
		for ; l.pos < len(l.in) && l.lit.rest != ""; l.pos++ {
			if l.in[l.pos] != l.lit.rest[0] {
				return nil, false, l.fail("a value must be an object, array, string, number, true, false or null")
			}
			l.lit.rest = l.lit.rest[1:]
		}
		end = l.lit.rest == ""
	} else {
		for l.pos < len(l.in) {
			c := l.in[l.pos]
			n := l.lit.num
			if !isDigit(c) || n != integer && n != fraction { // else it stays
				n = n.step(c)
			}
			if n == noNumber {
				end = true
				break
			}
			l.lit.num = n
			l.pos++
		}
		if end && !l.lit.num.complete() {
			return nil, false, l.fail("a number is not complete")
		}
	}
	if end {
		l.state = after
	}
	return l.in[from:l.pos], end, nil
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
