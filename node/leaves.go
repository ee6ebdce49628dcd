package node

import (
	"reflect"
	"strings"

	"github.com/warmring/warmring/api/strict"
)

// A Leaf is one scalar field of the configuration. Every leaf can be set by the file, an environment variable and a flag.
type Leaf struct {
	Path string // "shutdown.grace": in the file, and after "--" on the command line
	Env  string // "WARMRING_SHUTDOWN_GRACE"
	// About says in a sentence what it does, with its range or special values.
	About string
	strict.Scalar
}

// Leaves are the scalar fields of c outside its lists, in the order of the structure. Setting one changes c.
func Leaves(c *Config) []Leaf { return leaves(nil, strict.Field{Value: reflect.ValueOf(c).Elem()}) }

// leaves appends those of f, whose name is its path.
func leaves(out []Leaf, f strict.Field) []Leaf {
	if f.Value.Kind() == reflect.Struct && !strict.IsScalar(f.Value) {
		for inner := range strict.Fields(f.Value) {
			inner.Name = strict.Join(f.Name, inner.Name)
			out = leaves(out, inner)
		}
		return out
	}
	if !strict.IsScalar(f.Value) {
		return out
	}
	env := "WARMRING_" + strings.ToUpper(strings.ReplaceAll(f.Name, ".", "_"))
	return append(out, Leaf{Path: f.Name, Env: env, About: f.About, Scalar: strict.Scalar{Value: f.Value}})
}
