package openai

import (
	"github.com/warmring/warmring/routing/prefix"
)

const (
	maxKey     = 64      // bytes of a key that are looked at
	maxSetting = 1 << 16 // greatest length of a model or tenant name, in bytes
	chunkSize  = 1024    // a multiple of what the digest takes at a time
	maxArrays  = 16      // more than the depth of any array that has a rule, the body being at 1
	keepBytes  = 3 * prefix.MaxText
)

// Scanner reads one body as it arrives, in one pass, and collects its
// canonical text. The zero value needs a Reset. It is not safe for concurrent
// use; it keeps its buffers from one body to the next.
type Scanner struct {
	kind  Kind
	limit int
	err   error
	odd   bool

	lex    lexer
	text   builder
	digest digest
	chunk  [chunkSize + wordSize]byte // decoded string bytes on their way to the digest

	rule  rule            // how the next value is read
	field field           // the key before it
	elem  [maxArrays]rule // per depth: how elements of the array are read
	count [maxArrays]int  // per depth: elements of the array so far
	last  token           // what the element before was, in an array of prompts
	mode  mode            // how everything below base is read
	base  int             // depth around the value that mode is about
	none  builder         // always full: where what is passed over goes
	sink  sink            // where the string or literal goes
	then  then            // what follows its end
	key   []byte          // the key, as far as it is looked at
	keyed uint64          // hash of the key of a value of the rest

	model, cacheKey, cacheSalt []byte
	stream                     bool
	req                        Request
}

// mode says how the inside of a value is read.
type mode uint8

const (
	structured mode = iota // by the rules of its fields
	skipping
	compacting
	digesting
)

// sink is where string or literal bytes go.
type sink uint8

const (
	toNothing sink = iota
	toKey
	toText
	toDigest
	toModel
	toCacheKey
	toCacheSalt
)

// then is what the end of a string means beyond itself.
type then uint8

const (
	goOn then = iota
	endPart
	endPrompt
	endSystem
	endUser
)

// Reset prepares for a body of kind k, of whose canonical text limit bytes are
// wanted: 1 to prefix.MaxText. It invalidates the Request of the last body.
func (s *Scanner) Reset(k Kind, limit int) {
	if cap(s.text.buf) > keepBytes {
		s.text = builder{}
	}
	s.kind, s.limit = k, min(max(limit, 1), prefix.MaxText)
	s.err, s.odd = nil, false
	s.lex.reset()
	// One byte more than wanted tells a message that ends at the limit from
	// one that was cut there.
	s.text.reset(s.limit + 1)
	s.digest.depth = 0
	s.rule, s.mode, s.sink, s.then = ignored, structured, toNothing, goOn
	s.model, s.cacheKey, s.cacheSalt = s.model[:0], s.cacheKey[:0], s.cacheSalt[:0]
	s.stream = false
}

// Feed reads the next piece of the body, cut anywhere. It keeps nothing of p.
// The error is a *FieldError and is final.
func (s *Scanner) Feed(p []byte) error {
	if s.err != nil {
		return s.err
	}
	s.lex.feed(p)
	if s.err = s.scan(); s.err != nil {
		s.locate()
	}
	return s.err
}

// scan uses up the piece.
func (s *Scanner) scan() error {
	for s.lex.pos < len(s.lex.in) {
		var err error
		switch {
		case s.mode == skipping:
			err = s.pass(&s.none)
		case s.mode == compacting:
			err = s.pass(&s.text)
		case s.lex.state == inString:
			err = s.readString()
		case s.lex.state == inLiteral:
			err = s.readLiteral()
		default:
			var t token
			if t, err = s.lex.next(); err == nil && t != more {
				err = s.take(t)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish says that the body is complete. The error is a *FieldError. When the
// body is odd, the first of equal keys counts; Decode has the right answer.
func (s *Scanner) Finish() (*Request, error) {
	if s.err == nil && s.lex.state != done {
		s.err = s.lex.fail("the body ends early")
		if s.lex.state == start {
			s.err = notObject()
		}
	}
	if s.err == nil && !s.odd {
		s.err = s.kind.missing(s.text.present())
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Partial(), nil
}

// Model is the model that the body has named up to here, or empty. Unlike Partial it may be asked while there is more to feed.
func (s *Scanner) Model() string { return string(s.complete(toModel, s.model)) }

// Partial returns what the body says up to here, for a caller that feeds no
// more of it.
func (s *Scanner) Partial() *Request {
	tenant := s.complete(toCacheKey, s.cacheKey)
	if len(tenant) == 0 {
		tenant = s.complete(toCacheSalt, s.cacheSalt)
	}
	s.req.Model = intern(s.req.Model, s.complete(toModel, s.model))
	s.req.Tenant = intern(s.req.Tenant, tenant)
	s.req.Stream = s.stream
	s.text.text(&s.req.Text, s.limit)
	return &s.req
}

// complete returns name, unless the body has not come to its end.
func (s *Scanner) complete(to sink, name []byte) []byte {
	if s.sink == to && s.lex.state == inString {
		return nil
	}
	return name
}

// Odd reports whether the body has a shape that only Decode reads right: an
// object that matters has the same key twice.
func (s *Scanner) Odd() bool { return s.odd }

// intern returns b as a string, which is last where they are equal.
func intern(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}
