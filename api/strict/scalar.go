package strict

import (
	"encoding"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Scalar is a field that is written as one word, or, for a list of words, with
// commas between them.
type Scalar struct{ Value reflect.Value }

// IsScalar reports whether v, which must be addressable, can be a Scalar.
func IsScalar(v reflect.Value) bool {
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

// Field is one field of a struct that a document can set.
type Field struct {
	Name  string // in the document
	About string // what it does, in a sentence: its tag "about"
	Value reflect.Value
}

// Fields yields the exported fields of a struct.
func Fields(v reflect.Value) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				name = strings.ToLower(f.Name) // as the yaml package does
			}
			if !yield(Field{Name: name, About: f.Tag.Get("about"), Value: v.Field(i)}) {
				return
			}
		}
	}
}

// Join is the path of a field below another one.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Set parses text into the field, which an error leaves as it was.
func (s Scalar) Set(text string) error {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](s.Value.Addr()); ok {
		return u.UnmarshalText([]byte(text))
	}
	before := reflect.New(s.Value.Type()).Elem()
	before.Set(s.Value)
	if err := s.set(text); err != nil {
		s.Value.Set(before)
		return s.not(text)
	}
	return nil
}

func (s Scalar) set(text string) error {
	if d, ok := reflect.TypeAssert[*time.Duration](s.Value.Addr()); ok {
		parsed, err := time.ParseDuration(text)
		*d = parsed
		return err
	}
	switch s.Value.Kind() {
	case reflect.String:
		s.Value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		s.Value.SetBool(b)
		return err
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, s.Value.Type().Bits())
		s.Value.SetInt(n)
		return err
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		s.Value.SetUint(n)
		return err
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		s.Value.SetFloat(f)
		return err
	case reflect.Slice:
		words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
		list := reflect.MakeSlice(s.Value.Type(), len(words), len(words))
		for i, w := range words {
			list.Index(i).SetString(strings.TrimSpace(w))
		}
		s.Value.Set(list)
	default: // IsScalar lets no other kind be one
	}
	return nil
}

// String is the value as Set takes it.
func (s Scalar) String() string {
	switch v := s.Value.Interface().(type) {
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return ""
		}
		return string(text)
	case []string:
		return strings.Join(v, ",")
	}
	return fmt.Sprint(s.Value.Interface())
}

// not says that text cannot be the field's value.
func (s Scalar) not(text string) error {
	want, known := map[string]string{"duration": "duration such as 30s", "int": "whole number", "bool": "boolean"}[s.Kind()]
	if !known {
		want = s.Kind()
	}
	return fmt.Errorf("%q is not a %s", text, want)
}

// Kind names what Set takes in one word, for help.
func (s Scalar) Kind() string {
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](s.Value.Addr()); ok {
		return strings.ToLower(s.Value.Type().Name())
	}
	if s.Value.Type() == reflect.TypeFor[time.Duration]() {
		return "duration"
	}
	switch s.Value.Kind() {
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
