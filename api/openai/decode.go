package openai

import (
	"errors"
	"slices"
	"strconv"

	"github.com/warmring/warmring/routing/prefix"
)

// Decode reads a whole body of kind k, of whose canonical text limit bytes are
// wanted. It costs many times what a Scanner does and takes memory in
// proportion to the body, but knows all keys of an object before it reads one:
// of equal keys the last counts. It judges all of the JSON, also what a Scanner
// passes over. The error is a *FieldError.
func Decode(k Kind, limit int, body []byte) (*Request, error) {
	root, err := parse(body)
	if err != nil {
		return nil, err
	}
	d := decoder{kind: k}
	d.body(root)
	if d.err != nil {
		return nil, d.err
	}
	limit = min(max(limit, 1), prefix.MaxText)
	d.req.Text = prefix.Text{Bytes: d.out[:min(len(d.out), limit)], Ends: d.ends, FirstUser: d.firstUser, Cut: len(d.out) > limit}
	t := &d.req.Text
	t.Ends = slices.DeleteFunc(t.Ends, func(end int) bool { return end > limit })
	if t.FirstUser > limit {
		t.FirstUser = 0
	}
	return &d.req, nil
}

// decoder writes the canonical text of a tree.
type decoder struct {
	kind      Kind
	req       Request
	out       []byte
	ends      []int
	firstUser int
	err       error // the first
}

// entry is a field of an object and its value.
type entry struct {
	field
	value *node
	path  string
}

// fields returns what is known of an object, in canonical order and without
// nulls, and the digest of the rest.
func (d *decoder) fields(n *node, path string, known func([]byte) field) (entries []entry, digest uint64, other bool) {
	var last [16]entry
	for i := range n.members {
		m := &n.members[i]
		if m.key.broken {
			d.fail(path, notUTF8())
		}
		f := known([]byte(m.key.text))
		switch {
		case f.rule == rest && !m.value.null():
			sum, err := m.value.hash()
			d.fail(path, err)
			digest += mix(keySum([]byte(m.key.text)), sum)
			other = true
		case f.rule != ignored && f.rule != rest:
			last[f.rank] = entry{field: f, value: &m.value, path: join(path, f.name)}
		}
	}
	for _, e := range last {
		if e.value != nil && !e.value.null() {
			entries = append(entries, e)
		}
	}
	return entries, mix(objectSeed, digest), other
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func at(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// fail keeps the first error.
func (d *decoder) fail(path string, err error) {
	if err == nil || d.err != nil {
		return
	}
	if e, ok := errors.AsType[*FieldError](err); ok {
		err = &FieldError{Param: path, Message: e.Message}
	}
	d.err = err
}

func (d *decoder) body(n *node) {
	entries, _, _ := d.fields(n, "", d.kind.topField)
	var present uint16
	for _, e := range entries {
		if e.rank < settingRank {
			present |= 1 << e.rank
			d.segment(e)
			continue
		}
		d.setting(e)
	}
	if d.err == nil {
		d.err = d.kind.missing(present)
	}
}

func (d *decoder) setting(e entry) {
	n := e.value
	if e.rule == streaming {
		if n.token != literalStart || (n.text != "true" && n.text != "false") {
			d.fail(e.path, n.wrong("true or false"))
		}
		d.req.Stream = n.text == "true"
		return
	}
	if n.token != stringStart {
		d.fail(e.path, n.wrong("a string"))
	}
	if n.broken {
		d.fail(e.path, notUTF8())
	}
	if len(n.text) > maxSetting {
		d.fail(e.path, tooLong())
	}
	switch {
	case e.rule == modelName:
		d.req.Model = n.text
	case d.req.Tenant == "":
		d.req.Tenant = n.text
	}
}

func (d *decoder) end() { d.ends = append(d.ends, len(d.out)) }

func (d *decoder) tag(letter byte) { d.out = append(d.out, frameByte, letter) }

// segment writes a field that is a segment of the text.
func (d *decoder) segment(e entry) {
	n := e.value
	if want := e.rule.refuses(n.token); want != "" {
		d.fail(e.path, n.wrong(want))
		return
	}
	if e.tag != 0 {
		d.tag(e.tag)
	}
	switch e.rule {
	case dialogue:
		d.messages(n, e.path)
	case items:
		if n.token == openArray {
			d.messages(n, e.path)
			return
		}
		d.standIn("user", n, e.path)
		d.firstUser = len(d.out)
	case system:
		d.standIn("system", n, e.path)
	case prompts, documents:
		d.prompts(n, e)
	case plainText:
		d.text(n, e.path)
	case content, output:
		d.content(n, e.path)
	case definitions:
		d.compact(n, e.path)
		d.end()
	default:
		d.compact(n, e.path)
	}
}

func (d *decoder) text(n *node, path string) {
	if n.broken {
		d.fail(path, notUTF8())
	}
	d.out = append(d.out, n.text...)
}

func (d *decoder) compact(n *node, path string) {
	var err error
	d.out, err = n.compact(d.out)
	d.fail(path, err)
}

func (d *decoder) messages(n *node, path string) {
	for i := range n.members {
		d.message(&n.members[i].value, at(path, i))
	}
}

func (d *decoder) message(n *node, path string) {
	if n.token != openObject {
		d.fail(path, n.wrong("an object"))
		return
	}
	entries, digest, other := d.fields(n, path, d.kind.messageField)
	d.tag(messageTag)
	role := ""
	for _, e := range entries {
		if e.rank == roleRank {
			role = e.value.text
		}
		d.segment(e)
	}
	if other {
		d.tag('x')
		d.out = appendHex(d.out, digest)
	}
	d.end()
	if role == "user" && d.firstUser == 0 {
		d.firstUser = len(d.out)
	}
}

func (d *decoder) standIn(role string, n *node, path string) {
	d.tag(messageTag)
	d.tag('r')
	d.out = append(d.out, role...)
	d.tag('c')
	d.content(n, path)
	d.end()
}

func (d *decoder) content(n *node, path string) {
	switch n.token {
	case stringStart:
		d.text(n, path)
	case openArray:
		d.parts(n, path, false)
	default:
		d.compact(n, path)
	}
}

func (d *decoder) parts(n *node, path string, nested bool) {
	known := func(key []byte) field { return partField(key, nested) }
	separate := false
	for i := range n.members {
		p, path := &n.members[i].value, at(path, i)
		if p.token != stringStart && p.token != openObject {
			d.fail(path, p.wrong("an object"))
			return
		}
		entries, digest, other := d.fields(p, path, known)
		if p.token == openObject && len(entries) == 0 && !other {
			continue
		}
		if separate {
			d.tag(partTag)
		}
		separate = true
		if p.token == stringStart {
			d.text(p, path)
			continue
		}
		for _, e := range entries {
			if e.rule == output && e.value.token == openArray {
				d.tag(e.tag)
				d.parts(e.value, e.path, true)
				continue
			}
			d.segment(e)
		}
		if other {
			d.tag('x')
			d.out = appendHex(d.out, digest)
		}
	}
}

// prompts writes a prompt or an array of prompts.
func (d *decoder) prompts(n *node, e entry) {
	objects := e.rule == documents
	if n.token != openArray {
		if n.token == stringStart || n.token == openObject && objects {
			d.prompt(n, e.path)
			return
		}
		d.fail(e.path, n.wrong(promptTypes))
		return
	}
	last := more
	for i := range n.members {
		p := &n.members[i].value
		switch {
		case p.token == openObject && !objects,
			p.token == literalStart && !p.number(),
			last != more && last != p.token && !objects:
			d.fail(e.path, p.wrong(promptTypes))
			return
		case p.token != literalStart:
			d.prompt(p, e.path)
		default:
			if last != literalStart {
				d.tag(idsTag)
			}
			d.compact(p, e.path)
		}
		last = p.token
	}
	if last == literalStart {
		d.end()
	}
}

// prompt writes one prompt.
func (d *decoder) prompt(n *node, path string) {
	switch n.token {
	case stringStart:
		d.tag(promptTag)
		d.text(n, path)
	case openObject:
		d.tag(promptTag)
		d.compact(n, path)
	default:
		d.tag(idsTag)
		for i := range n.members {
			id := &n.members[i].value
			if !id.number() {
				d.fail(path, id.wrong(promptTypes))
				return
			}
			d.compact(id, path)
		}
	}
	d.end()
}

func (n *node) number() bool {
	return n.token == literalStart && (n.text[0] == '-' || isDigit(n.text[0]))
}

func (n *node) wrong(want string) error {
	first := byte(0)
	if n.token == literalStart {
		first = n.text[0]
	}
	return wrongType(want, n.token, first)
}
