package node

import (
	"encoding"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A Leaf is one scalar field of the configuration. Every leaf can be set by the file, an environment variable and a flag.
type Leaf struct {
	Path  string // "shutdown.grace": in the file, and after "--" on the command line
	Env   string // "WARMRING_SHUTDOWN_GRACE"
	value reflect.Value
}

// Leaves are the scalar fields of c outside its lists, in the order of the structure. Setting one changes c.
func Leaves(c *Config) []Leaf { return leaves(nil, reflect.ValueOf(c).Elem(), "") }

func leaves(out []Leaf, v reflect.Value, path string) []Leaf {
	if v.Kind() == reflect.Struct && !isScalar(v) {
		for name, field := range fields(v) {
			out = leaves(out, field, join(path, name))
		}
		return out
	}
	if !isScalar(v) {
		return out
	}
	env := "WARMRING_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
	return append(out, Leaf{Path: path, Env: env, value: v})
}

// isScalar: v is written as one word. A list of words is too: with commas between them.
func isScalar(v reflect.Value) bool {
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return true
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return true
	case reflect.Slice:
		return v.Type().Elem().Kind() == reflect.String
	default:
		return false
	}
}

// fields yields the exported fields of a struct under their names in the file.
func fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				name = strings.ToLower(f.Name) // as the yaml package does
			}
			if !yield(name, v.Field(i)) {
				return
			}
		}
	}
}

// Set parses text into the field.
func (l Leaf) Set(text string) error {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](l.value.Addr()); ok {
		return u.UnmarshalText([]byte(text))
	}
	if err := l.set(text); err != nil {
		return l.not(text)
	}
	return nil
}

func (l Leaf) set(text string) error {
	if d, ok := reflect.TypeAssert[*time.Duration](l.value.Addr()); ok {
		parsed, err := time.ParseDuration(text)
		*d = parsed
		return err
	}
	switch l.value.Kind() {
	case reflect.String:
		l.value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		l.value.SetBool(b)
		return err
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, l.value.Type().Bits())
		l.value.SetInt(n)
		return err
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		l.value.SetUint(n)
		return err
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		l.value.SetFloat(f)
		return err
	case reflect.Slice:
		words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
		list := reflect.MakeSlice(l.value.Type(), len(words), len(words))
		for i, w := range words {
			list.Index(i).SetString(strings.TrimSpace(w))
		}
		l.value.Set(list)
	default: // isScalar lets no other kind become a leaf
	}
	return nil
}

// String is the value as Set takes it.
func (l Leaf) String() string {
	switch v := l.value.Interface().(type) {
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	case []string:
		return strings.Join(v, ",")
	}
	return fmt.Sprint(l.value.Interface())
}

// not says that text cannot be the field's value.
func (l Leaf) not(text string) error {
	want, known := map[string]string{"duration": "duration such as 30s", "int": "whole number", "bool": "boolean"}[l.Kind()]
	if !known {
		want = l.Kind()
	}
	return fmt.Errorf("%q is not a %s", text, want)
}

// Kind names what Set takes in one word, for help.
func (l Leaf) Kind() string {
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](l.value.Addr()); ok {
		return strings.ToLower(l.value.Type().Name())
	}
	if l.value.Type() == reflect.TypeFor[time.Duration]() {
		return "duration"
	}
	switch l.value.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "string"
	default:
		return "int"
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
