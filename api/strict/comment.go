package strict

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Commented is *v, a struct whose fields have yaml tags, as a document in which
// what each field is about stands above it. In a list it stands in the first
// element only.
func Commented(v any) (*yaml.Node, error) {
	var n yaml.Node
	err := n.Encode(v)
	comment(&n, reflect.ValueOf(v).Elem())
	return &n, err
}

func comment(n *yaml.Node, v reflect.Value) {
	switch {
	case IsScalar(v):
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		comment(n.Content[0], v.Index(0))
	case n.Kind == yaml.MappingNode:
		fields := map[string]Field{}
		for f := range Fields(v) {
			fields[f.Name] = f
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			f := fields[n.Content[i].Value]
			n.Content[i].HeadComment = f.About
			comment(n.Content[i+1], f.Value)
		}
	}
}
