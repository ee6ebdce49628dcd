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
	strict.Scalar
}

// Leaves are the scalar fields of c outside its lists, in the order of the structure. Setting one changes c.
func Leaves(c *Config) []Leaf { return leaves(nil, reflect.ValueOf(c).Elem(), "") }

func leaves(out []Leaf, v reflect.Value, path string) []Leaf {
	if v.Kind() == reflect.Struct && !strict.IsScalar(v) {
		for name, field := range strict.Fields(v) {
			out = leaves(out, field, strict.Join(path, name))
		}
		return out
	}
	if !strict.IsScalar(v) {
		return out
	}
	env := "WARMRING_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
	return append(out, Leaf{Path: path, Env: env, Scalar: strict.Scalar{Value: v}})
}
