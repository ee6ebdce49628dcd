package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// node is a JSON value.
type node struct {
	token   token    // that begins it
	text    string   // the decoded string, or the literal
	broken  bool     // the string is not valid UTF-8
	members []member // of an object, in the order given; of an array, without keys
}

type member struct {
	key   node
	value node
}

func (n *node) null() bool { return n.token == literalStart && n.text == "null" }

// parse reads a whole body. The error is a *FieldError.
func parse(body []byte) (*node, error) {
	for i := 0; len(body) > 0 && inMark(i, body[0]); i++ {
		body = body[1:]
	}
	if p := bytes.TrimLeft(body, " \t\r\n"); len(p) == 0 || p[0] != '{' {
		return nil, notObject()
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, malformed(err.Error())
	}
	p := parser{body: body, dec: json.NewDecoder(bytes.NewReader(body))}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

// parser builds a tree from the tokens of a body that is known to be
// well-formed.
type parser struct {
	body []byte
	dec  *json.Decoder
}

func (p *parser) value(depth int) (node, error) {
	from := p.dec.InputOffset()
	t, err := p.dec.Token()
	if err != nil {
		return node{}, malformed(err.Error())
	}
	switch t := t.(type) {
	case json.Delim:
		if depth == maxDepth {
			return node{}, tooDeep()
		}
		return p.members(t == '{', depth+1)
	case string:
		// What the decoder passed includes the string as it was sent.
		sent := p.body[from:p.dec.InputOffset()]
		return node{token: stringStart, text: t, broken: !utf8.Valid(sent)}, nil
	case json.Number:
		return node{token: literalStart, text: t.String()}, nil
	case bool:
		return node{token: literalStart, text: fmt.Sprint(t)}, nil
	}
	return node{token: literalStart, text: "null"}, nil
}

func (p *parser) members(object bool, depth int) (n node, err error) {
	n.token = openArray
	if object {
		n.token = openObject
	}
	for p.dec.More() {
		var m member
		if object {
			if m.key, err = p.value(depth); err != nil {
				return n, err
			}
		}
		if m.value, err = p.value(depth); err != nil {
			return n, err
		}
		n.members = append(n.members, m)
	}
	if _, err = p.dec.Token(); err != nil {
		return n, malformed(err.Error())
	}
	return n, nil
}

// compact appends the value as compact JSON. It fails at a string that is not
// valid UTF-8.
func (n *node) compact(dst []byte) ([]byte, error) {
	switch n.token {
	case stringStart:
		if n.broken {
			return dst, notUTF8()
		}
		dst = append(append(dst, quoteByte), n.text...)
		return append(dst, quoteByte), nil
	case literalStart:
		return append(append(dst, n.text...), ','), nil
	default:
	}
	brackets := "[]"
	if n.token == openObject {
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	var err error
	for _, m := range n.members {
		if n.token == openObject {
			if dst, err = m.key.compact(dst); err != nil {
				return dst, err
			}
		}
		if dst, err = m.value.compact(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, brackets[1]), nil
}

// hash returns the digest of the value.
func (n *node) hash() (sum uint64, err error) {
	switch n.token {
	case stringStart:
		if n.broken {
			return 0, notUTF8()
		}
		return seeded(stringSeed, []byte(n.text)), nil
	case literalStart:
		return seeded(literalSeed, []byte(n.text)), nil
	default:
	}
	for _, m := range n.members {
		value, err := m.value.hash()
		switch {
		case err != nil:
			return 0, err
		case n.token == openArray:
			sum = mix(sum, value)
		case m.key.broken:
			return 0, notUTF8()
		default:
			sum += mix(keySum([]byte(m.key.text)), value)
		}
	}
	if n.token == openArray {
		return mix(arraySeed, sum), nil
	}
	return mix(objectSeed, sum), nil
}
