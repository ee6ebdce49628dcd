package field

import "net/http"

// Field is a field of a head: one line of it.
type Field struct {
	Name  string // canonical, as http.CanonicalHeaderKey has it
	Value string
}

// List is the fields of a head. A request passes through with a few of them, each
// looked at once: a list costs a fraction of an http.Header for that.
type List []Field

// Get returns the first value of the name, which must be canonical, or "".
func (l List) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

// Displace deletes from h what l has fields of, but for Vary: of that, both hold.
func (l List) Displace(h http.Header) {
	for i := range l {
		if _, ok := h[l[i].Name]; ok && l[i].Name != "Vary" {
			delete(h, l[i].Name)
		}
	}
}

// AddTo adds the fields to h.
func (l List) AddTo(h http.Header) {
	for _, f := range l {
		h[f.Name] = append(h[f.Name], f.Value)
	}
}
