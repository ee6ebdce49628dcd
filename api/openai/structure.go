package openai

import (
	"errors"
	"strconv"
)

// value begins a value whose field or array has a rule.
func (s *Scanner) value(t token) error {
	if t == openObject || t == openArray {
		s.elem[s.lex.depth], s.count[s.lex.depth] = ignored, 0
	}
	s.sink, s.then = toNothing, goOn
	if t == literalStart && s.lex.lit.first == 'n' && s.rule < message {
		return nil // null is as good as absent
	}
	switch s.rule {
	case ignored:
		if t == openObject && s.lex.depth == 1 {
			return nil // the body itself
		}
		s.inner(skipping, t)
	case rest:
		s.inner(digesting, t)
	case modelName, cacheKey, cacheSalt, streaming:
		return s.readSetting(t)
	case prompts, documents, promptValue, documentItem, tokenID:
		return s.promptOf(t)
	case message, part:
		return s.element(t)
	default:
		return s.segment(t)
	}
	return nil
}

func (s *Scanner) readSetting(t token) error {
	if s.rule == streaming {
		if t != literalStart || (s.lex.lit.first != 't' && s.lex.lit.first != 'f') {
			return s.wrong("true or false", t)
		}
		s.stream = s.lex.lit.first == 't'
		return nil
	}
	if t != stringStart {
		return s.wrong("a string", t)
	}
	s.sink = toModel + sink(s.rule-modelName)
	return nil
}

// segment begins a field that is a segment of the text.
func (s *Scanner) segment(t token) error {
	if want := s.rule.refuses(t); want != "" {
		return s.wrong(want, t)
	}
	s.text.segment(s.field.rank, s.field.tag)
	switch s.rule {
	case dialogue:
		s.elem[s.lex.depth] = message
	case items, system:
		s.standIn(t)
	case plainText:
		s.sink = toText
	case content, output:
		switch t {
		case stringStart:
			s.sink = toText
		case openArray:
			s.openParts()
		default:
			s.inner(compacting, t)
		}
	default:
		s.inner(compacting, t)
		return nil
	}
	s.rule = s.elem[s.lex.depth]
	return nil
}

// refuses returns what a value must be when it cannot begin with t, else "".
func (r rule) refuses(t token) string {
	switch r {
	case dialogue:
		if t != openArray {
			return "an array of messages"
		}
	case items:
		if t != openArray && t != stringStart {
			return "a string or an array of items"
		}
	case system, content:
		if t != openArray && t != stringStart {
			return "a string or an array of parts"
		}
	case plainText:
		if t != stringStart {
			return "a string"
		}
	case definitions, calls:
		if t != openArray {
			return "an array"
		}
	default:
	}
	return ""
}

// standIn begins a message that the body has without saying so: a system
// prompt, or a string that is the user's.
func (s *Scanner) standIn(t token) {
	role, end := "system", endSystem
	if s.rule == items {
		if t == openArray {
			s.elem[s.lex.depth] = message
			return
		}
		role, end = "user", endUser
	}
	s.text.tag(messageTag)
	s.text.push(noIndex)
	s.text.segment(roleRank, 'r')
	s.text.write([]byte(role))
	s.text.segment(contentRank, 'c')
	if t == openArray {
		s.openParts()
		return
	}
	s.sink, s.then = toText, end
}

func (s *Scanner) openParts() {
	s.text.frame().parts = 0
	s.elem[s.lex.depth] = part
}

// element begins a message or a part of a content.
func (s *Scanner) element(t token) error {
	depth := s.lex.depth
	if t == openObject || t == openArray {
		depth--
	}
	index := s.count[depth]
	s.count[depth]++
	if s.rule == message {
		if t == openObject && s.text.full() {
			s.mode, s.base = skipping, depth-1 // nothing in the array can matter any more
			return nil
		}
		s.text.tag(messageTag)
		s.text.push(index)
		if t != openObject {
			return s.wrong("an object", t)
		}
		return nil
	}
	s.text.pushPart(index)
	switch t {
	case openObject:
	case stringStart:
		s.text.segment(0, 0)
		s.sink, s.then = toText, endPart
	default:
		return s.wrong("an object", t)
	}
	return nil
}

// promptOf begins a prompt, an array of prompts or an element of one.
func (s *Scanner) promptOf(t token) error {
	number := t == literalStart && (s.lex.lit.first == '-' || isDigit(s.lex.lit.first))
	objects := s.rule == documents || s.rule == documentItem
	whole := s.rule == prompts || s.rule == documents
	switch {
	case t == literalStart && (!number || whole),
		t == openObject && (!objects || s.rule == tokenID),
		s.rule == tokenID && !number:
		return s.wrong(promptTypes, t)
	case whole:
		s.text.segment(s.field.rank, s.field.tag)
		if t == openArray {
			s.elem[s.lex.depth] = promptValue
			if objects {
				s.elem[s.lex.depth] = documentItem
			}
			s.rule, s.last = s.elem[s.lex.depth], more
			return nil
		}
	case s.rule == promptValue && s.last != more && s.last != t:
		return s.wrong(promptTypes, t)
	}
	s.onePrompt(t)
	return nil
}

// onePrompt begins a prompt, or a token id of one.
func (s *Scanner) onePrompt(t token) {
	if s.rule != tokenID {
		switch {
		case t == stringStart || t == openObject:
			s.text.tag(promptTag)
		case t == openArray || s.last != literalStart:
			s.text.tag(idsTag)
		}
		s.last = t
	}
	switch t {
	case stringStart:
		s.sink, s.then = toText, endPrompt
	case openObject:
		s.inner(compacting, t)
	case openArray:
		s.elem[s.lex.depth] = tokenID
		s.rule = tokenID
	default:
		s.sink = toText
	}
}

// closeStructured acts on the end of an object or array that has a rule.
func (s *Scanner) closeStructured(t token) {
	depth := s.lex.depth + 1
	if t == closeObject {
		switch s.text.depth {
		case 1: // the body
		case 2:
			s.endMessage()
		default:
			s.text.pop()
		}
		return
	}
	switch s.elem[depth] {
	case part:
		if s.text.depth == 2 && s.text.frame().index == noIndex {
			s.then = endSystem
			s.follow()
		}
	case tokenID:
		s.text.endMessage()
	case promptValue, documentItem:
		if s.last == literalStart {
			s.text.endMessage()
		}
	default:
	}
}

// follow acts on what the end of a string or array means beyond itself.
func (s *Scanner) follow() {
	switch s.then {
	case endPart:
		s.text.pop()
	case endPrompt:
		s.text.endMessage()
	case endSystem, endUser:
		s.endMessage()
	case goOn:
	}
	s.then = goOn
}

// endMessage ends a message and its frame.
func (s *Scanner) endMessage() {
	b := &s.text
	b.endSegment()
	user := string(b.role()) == "user"
	b.pop()
	b.endMessage()
	if user && b.firstUser == 0 && !b.full() {
		b.firstUser = len(b.buf)
	}
}

// wrong describes a value of the wrong type.
func (s *Scanner) wrong(want string, t token) error {
	return wrongType(want, t, s.lex.lit.first)
}

// locate adds to the error where in the body it is.
func (s *Scanner) locate() {
	e, ok := errors.AsType[*FieldError](s.err)
	if !ok {
		return
	}
	b := &s.text
	for _, f := range b.frames[:b.depth] {
		if f.index != noIndex {
			e.Param += "[" + strconv.Itoa(f.index) + "]"
		}
		if f.name != "" && e.Param != "" {
			e.Param += "."
		}
		e.Param += f.name
	}
}
