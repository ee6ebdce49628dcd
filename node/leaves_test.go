package node

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/warmring/warmring/api/strict"
)

// settings are the fields of f, whose name is its path, that a file can set: leaves and lists, also those of a list's elements.
func settings(f strict.Field) []strict.Field {
	var out []strict.Field
	if f.About != "" || strict.IsScalar(f.Value) || f.Value.Kind() == reflect.Slice {
		out = append(out, f)
	}
	v := f.Value
	if v.Kind() == reflect.Slice {
		v = reflect.New(v.Type().Elem()).Elem()
	}
	if v.Kind() == reflect.Struct && !strict.IsScalar(v) {
		for inner := range strict.Fields(v) {
			inner.Name = strict.Join(f.Name, inner.Name)
			out = append(out, settings(inner)...)
		}
	}
	return out
}

func TestEverySettingSaysWhatItIsAbout(t *testing.T) {
	form := regexp.MustCompile("^([a-z]|[A-Z]{2})[^`]*[^`.]$") // small letters but for an acronym, no stop; pflag reads backquotes
	said := map[string]string{}
	for _, f := range settings(strict.Field{Value: reflect.ValueOf(new(Default())).Elem()}) {
		if !form.MatchString(f.About) || len(f.About) > 110 {
			t.Errorf("%s: %q (%d bytes) is not 1 to 110 bytes that begin small and end without a stop", f.Name, f.About, len(f.About))
		}
		said[f.Name] = f.About
	}
	for _, path := range []string{"backends", "backends.url", "discovery.dns.port", "endpoints.variants.routing.strategy"} {
		if said[path] == "" {
			t.Errorf("%s was not looked at", path)
		}
	}
	for _, leaf := range Leaves(new(Default())) {
		if leaf.About != said[leaf.Path] || leaf.About == "" {
			t.Errorf("the leaf %s is about %q, its field about %q", leaf.Path, leaf.About, said[leaf.Path])
		}
	}
}
