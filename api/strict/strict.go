// Package strict reads YAML and JSON documents that people wrote: every unknown
// field, every field that is there twice and every wrong value is an error with its path, and all
// are reported at once.
package strict

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is what is wrong with one field.
type Error struct {
	Line int    // from 1; 0: not told
	Path string // like "backends[3].url"
	Msg  string
}

func (e *Error) Error() string {
	text := cmp.Or(e.Path, "the file") + ": " + e.Msg
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// Defaulter is an element of a list that does not begin as all zeros.
type Defaulter interface{ SetDefaults() }

// ErrSyntax wraps the reason why a text could not be read at all.
var ErrSyntax = errors.New("not YAML")

// YAML reads one document over *v, a struct whose fields have yaml tags. An empty
// document says nothing. The error is ErrSyntax, or joins one *Error for each field.
func YAML(r io.Reader, v any) error {
	in := yaml.NewDecoder(r)
	root, err := next(in)
	if err != nil || root == nil {
		return err
	}
	second, err := next(in)
	if err != nil {
		return err
	}
	err = decode(root, v)
	if second != nil && second.Tag != "!!null" {
		err = errors.Join(err, &Error{Line: second.Line, Msg: "has a second document: put all into one"})
	}
	return err
}

// next reads a document; nil: there is none.
func next(in *yaml.Decoder) (*yaml.Node, error) {
	var doc yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // as said
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return doc.Content[0], nil
}

func decode(n *yaml.Node, v any) error {
	return errors.Join(decodeNode(n, reflect.ValueOf(v).Elem(), "")...)
}

func decodeNode(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case IsScalar(v), v.Kind() != reflect.Struct && v.Kind() != reflect.Slice:
		return decodeScalar(n, v, path)
	case n.Tag == "!!null":
		return nil // "api:" with nothing below
	case v.Kind() == reflect.Slice:
		return decodeList(n, v, path)
	default:
		return decodeStruct(n, v, path)
	}
}

// wrong is the one error of a node.
func wrong(n *yaml.Node, path, format string, args ...any) []error {
	return []error{&Error{Line: n.Line, Path: path, Msg: fmt.Sprintf(format, args...)}}
}

func decodeScalar(n *yaml.Node, v reflect.Value, path string) []error {
	switch {
	case v.Kind() == reflect.Slice && n.Kind != yaml.SequenceNode:
		return wrong(n, path, "must be a list")
	case v.Kind() != reflect.Slice && n.Kind != yaml.ScalarNode:
		return wrong(n, path, "must be a single value")
	}
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		if err := (Scalar{v}).Set(n.Value); err != nil {
			return wrong(n, path, "%v", err)
		}
		return nil
	}
	cut := v.CanInt() && n.ShortTag() == "!!float" // the yaml package would round it
	if err := n.Decode(v.Addr().Interface()); err != nil || cut {
		return wrong(n, path, "%v", Scalar{v}.not(n.Value))
	}
	return nil
}

func decodeList(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind != yaml.SequenceNode {
		return wrong(n, path, "must be a list")
	}
	var errs []error
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d, ok := reflect.TypeAssert[Defaulter](list.Index(i).Addr()); ok {
			d.SetDefaults()
		}
		errs = append(errs, decodeNode(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
	}
	v.Set(list)
	return errs
}

func decodeStruct(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, path, "must hold fields")
	}
	known := map[string]reflect.Value{}
	for f := range Fields(v) {
		known[f.Name] = f.Value
	}
	var errs []error
	seen := map[string]bool{}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := known[key.Value]
		switch at := Join(path, key.Value); {
		case !ok:
			errs = append(errs, wrong(key, at, "unknown field%s", suggest(key.Value, known))...)
		case seen[key.Value] && first[key.Value] > 0:
			errs = append(errs, wrong(key, at, "set already on line %d", first[key.Value])...)
		case seen[key.Value]:
			errs = append(errs, wrong(key, at, "set already")...)
		default:
			seen[key.Value], first[key.Value] = true, key.Line
			errs = append(errs, decodeNode(value, field, at)...)
		}
	}
	return errs
}

// suggest offers the known name that is nearest to a mistyped one, if any is near.
func suggest(name string, known map[string]reflect.Value) string {
	best, least := "", len(name)/3+2
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(strings.ToLower(name), k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is Levenshtein's: the least number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
