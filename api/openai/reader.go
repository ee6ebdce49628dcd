package openai

// take acts on a token.
func (s *Scanner) take(t token) error {
	switch t {
	case keyStart:
		s.startKey()
		return nil
	case closeObject, closeArray:
		s.close(t)
		return nil
	default:
		return s.begin(t)
	}
}

// begin acts on the begin of a value.
func (s *Scanner) begin(t token) error {
	if s.mode == digesting {
		s.digestValue(t)
		return nil
	}
	return s.value(t)
}

func (s *Scanner) startKey() {
	s.key = s.key[:0]
	s.sink = toKey
}

// inner reads the value that t begins, and all that is in it, by mode m.
func (s *Scanner) inner(m mode, t token) {
	s.mode, s.base = m, s.lex.depth
	if t == openObject || t == openArray {
		s.base--
	}
	switch m {
	case compacting:
		s.compact(t)
	case digesting:
		s.digestValue(t)
	default:
	}
}

func (s *Scanner) compact(t token) {
	switch t {
	case openObject:
		s.text.writeByte('{')
	case openArray:
		s.text.writeByte('[')
	case stringStart:
		s.text.writeByte(quoteByte)
	default: // a literal
	}
}

// pass reads what is left of a value that no rule is about.
func (s *Scanner) pass(out *builder) error {
	end, err := s.lex.pass(s.base, out)
	if end {
		s.endInner()
	}
	return err
}

func (s *Scanner) digestValue(t token) {
	switch t {
	case openObject, openArray:
		s.digest.open(t == openArray)
	case stringStart:
		s.digest.begin(stringSeed)
	default:
		s.digest.begin(literalSeed)
	}
	s.sink = toDigest
}

// close acts on the end of an object or array.
func (s *Scanner) close(t token) {
	if s.mode == digesting {
		s.digest.close()
		s.endInner()
		return
	}
	s.closeStructured(t)
	s.rule = s.elem[s.lex.depth&(maxArrays-1)]
}

// endInner ends the mode if the value that it is about has ended.
func (s *Scanner) endInner() {
	if s.mode == structured || s.lex.depth != s.base {
		return
	}
	if s.mode == digesting {
		f := s.text.frame()
		f.keyed += mix(s.keyed, s.digest.value)
		f.rest = true
	}
	if s.rule == definitions || s.rule == documents || s.rule == documentItem {
		s.text.endMessage()
	}
	s.mode = structured
}

// readString reads string bytes into the sink.
func (s *Scanner) readString() (err error) {
	var end bool
	switch s.sink {
	case toNothing:
		end = s.lex.skip()
	case toKey:
		if short, ok := s.lex.short(); ok {
			s.key = append(s.key, short...)
			s.key = s.key[:min(len(s.key), maxKey)]
			end = true
			break
		}
		s.key, end, err = s.lex.text(s.key, maxKey)
	case toText:
		if short, ok := s.lex.short(); ok {
			s.text.write(short)
			end = true
			break
		}
		s.text.buf, end, err = s.lex.text(s.text.buf, s.text.stop)
	case toDigest:
		if short, ok := s.lex.short(); ok {
			s.digest.write(short)
			end = true
			break
		}
		for !end && err == nil && s.lex.pos < len(s.lex.in) {
			p := s.lex.asIs(chunkSize)
			if len(p) == 0 {
				p, end, err = s.lex.some(s.chunk[:0], chunkSize)
			}
			s.digest.write(p)
		}
	case toModel:
		s.model, end, err = s.setting(s.model)
	case toCacheKey:
		s.cacheKey, end, err = s.setting(s.cacheKey)
	case toCacheSalt:
		s.cacheSalt, end, err = s.setting(s.cacheSalt)
	}
	if end && err == nil {
		s.endString()
	}
	return err
}

// setting appends string bytes to dst.
func (s *Scanner) setting(dst []byte) (_ []byte, end bool, err error) {
	dst, end, err = s.lex.text(dst, maxSetting+1)
	if len(dst) > maxSetting {
		return dst, false, tooLong()
	}
	return dst, end, err
}

// endString acts on the end of a string or key.
func (s *Scanner) endString() {
	switch s.sink {
	case toKey:
		s.endKey()
		return
	case toDigest:
		s.digest.end()
	default:
	}
	s.endInner()
	if s.then != goOn {
		s.follow()
	}
}

func (s *Scanner) endKey() {
	if s.mode == digesting {
		s.digest.key(s.key)
		return
	}
	f := s.text.frame()
	switch s.text.depth {
	case 1:
		s.field = s.kind.topField(s.key)
	case 2:
		s.field = s.kind.messageField(s.key)
	default:
		s.field = partField(s.key, s.text.depth == maxFrames)
	}
	f.name, s.rule = s.field.name, s.field.rule
	switch s.rule {
	case ignored:
	case rest:
		s.keyed = keySum(s.key)
	default:
		bit := uint16(1) << s.field.rank
		if f.seen&bit != 0 {
			s.odd = true
			s.rule = ignored
		}
		f.seen |= bit
	}
}

// readLiteral reads the bytes of a number, true, false or null.
func (s *Scanner) readLiteral() error {
	p, end, err := s.lex.literal()
	if err != nil {
		return err
	}
	switch s.sink {
	case toText:
		s.text.write(p)
		if end {
			s.text.writeByte(',')
		}
	case toDigest:
		s.digest.write(p)
		if end {
			s.digest.end()
		}
	default:
	}
	if end {
		s.endInner()
	}
	return nil
}
