package node

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

// defaulter is an element of a list that does not begin as all zeros.
type defaulter interface{ setDefaults() }

// decode reads the YAML document of r over c. It reports every unknown field and every wrong value, with its line and
// path; the yaml package alone would know only the Go type.
func decode(r io.Reader, c *Config) error {
	var doc yaml.Node
	if err := yaml.NewDecoder(r).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty file says nothing
		}
		return err
	}
	return errors.Join(decodeNode(doc.Content[0], reflect.ValueOf(c).Elem(), "")...)
}

func decodeNode(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case isScalar(v), v.Kind() != reflect.Struct && v.Kind() != reflect.Slice:
		return decodeScalar(n, v, path)
	case n.Tag == "!!null":
		return nil // "api:" with nothing below
	case v.Kind() == reflect.Slice:
		return decodeList(n, v, path)
	default:
		return decodeStruct(n, v, path)
	}
}

func decodeScalar(n *yaml.Node, v reflect.Value, path string) []error {
	wrong := func(format string, args ...any) []error {
		return []error{fmt.Errorf("line %d: %s: "+format, append([]any{n.Line, path}, args...)...)}
	}
	switch {
	case v.Kind() == reflect.Slice && n.Kind != yaml.SequenceNode:
		return wrong("must be a list")
	case v.Kind() != reflect.Slice && n.Kind != yaml.ScalarNode:
		return wrong("must be a single value")
	}
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		if err := (Leaf{value: v}).Set(n.Value); err != nil {
			return wrong("%w", err)
		}
		return nil
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		return wrong("%w", Leaf{value: v}.not(n.Value))
	}
	return nil
}

func decodeList(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind != yaml.SequenceNode {
		return []error{fmt.Errorf("line %d: %s: must be a list", n.Line, path)}
	}
	var errs []error
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d, ok := reflect.TypeAssert[defaulter](list.Index(i).Addr()); ok {
			d.setDefaults()
		}
		errs = append(errs, decodeNode(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
	}
	v.Set(list)
	return errs
}

func decodeStruct(n *yaml.Node, v reflect.Value, path string) []error {
	if n.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("line %d: %s: must hold fields", n.Line, cmp.Or(path, "the file"))}
	}
	known := maps.Collect(fields(v))
	var errs []error
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := known[key.Value]
		switch line, again := seen[key.Value], seen[key.Value] != 0; {
		case !ok:
			errs = append(errs, fmt.Errorf("line %d: %s: unknown field%s", key.Line, join(path, key.Value), suggest(key.Value, known)))
		case again:
			errs = append(errs, fmt.Errorf("line %d: %s: set already on line %d", key.Line, join(path, key.Value), line))
		default:
			seen[key.Value] = key.Line
			errs = append(errs, decodeNode(value, field, join(path, key.Value))...)
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
