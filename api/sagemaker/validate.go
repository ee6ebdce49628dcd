package sagemaker

import (
	"fmt"
	"net/http"
)

// ValidationError is a request that breaks a rule of the API.
type ValidationError struct {
	Field   string // the header, or "EndpointName"
	Message string
}

func (e *ValidationError) Error() string { return e.Field + ": " + e.Message }

// rule is what a header's value must be. The service's own patterns are: names
// [a-zA-Z0-9](-*[a-zA-Z0-9])*, identifiers \S[\p{Print}]*.
type rule struct {
	header     string
	max        int
	allowed    func(string) bool
	want       string
	unaryOnly  bool
	canBeEmpty bool
}

func rules() []rule {
	return []rule{
		{header: "Content-Type", max: 1024, allowed: visible, want: "printable ASCII", canBeEmpty: true},
		{header: "Accept", max: 1024, allowed: visible, want: "printable ASCII", canBeEmpty: true},
		{header: headerAccept, max: 1024, allowed: visible, want: "printable ASCII", canBeEmpty: true},
		{header: headerAttributes, max: 1024, allowed: visible, want: "printable ASCII", canBeEmpty: true},
		{header: headerInferenceID, max: 64, allowed: identifier, want: "printable characters that do not begin with a space"},
		{header: HeaderPrefixAwareID, max: 64, allowed: identifier, want: "printable characters that do not begin with a space"},
		{header: HeaderComponent, max: 63, allowed: isName, want: wantName},
		{header: headerSessionID, max: 256, allowed: session, want: wantName + ", or NEW_SESSION"},
		{header: HeaderTargetVariant, max: 63, allowed: isName, want: wantName},
		{header: headerHostname, max: 63, allowed: isName, want: wantName},
		{header: headerTargetModel, max: 1024, allowed: visible, want: "printable ASCII", unaryOnly: true},
		{header: headerExplanations, max: 64, allowed: visible, want: "printable ASCII", unaryOnly: true},
	}
}

const wantName = "letters, digits and inner hyphens"

// Validator checks the headers of invocations.
type Validator struct{ rules []rule }

// NewValidator returns a Validator; it is safe for concurrent use.
func NewValidator() *Validator { return &Validator{rules: rules()} }

// Check returns a *ValidationError for the first rule that a request to an
// endpoint breaks. stream says that the answer is to be an event stream.
func (v *Validator) Check(endpoint string, h http.Header, stream bool) error {
	if len(endpoint) > 63 || !isName(endpoint) {
		return &ValidationError{"EndpointName", fmt.Sprintf("%.64q must be 1 to 63 %s", endpoint, wantName)}
	}
	for i := range v.rules {
		if err := v.rules[i].check(h, stream); err != nil {
			return err
		}
	}
	if stream && h.Get(headerSessionID) == "NEW_SESSION" {
		return &ValidationError{headerSessionID, "NEW_SESSION cannot be asked for on a response stream"}
	}
	return nil
}

func (r *rule) check(h http.Header, stream bool) error {
	values := h[r.header]
	if len(values) == 0 || r.unaryOnly && stream {
		return nil
	}
	value := values[0]
	if value == "" && r.canBeEmpty {
		return nil
	}
	if value == "" || len(value) > r.max || !r.allowed(value) {
		return &ValidationError{r.header, fmt.Sprintf("%.64q must be 1 to %d %s", value, r.max, r.want)}
	}
	return nil
}

// PrefixAwareID is the caller's name for requests that share a prefix; "" when
// the header is absent.
func PrefixAwareID(h http.Header) (string, error) {
	values := h[HeaderPrefixAwareID]
	if len(values) == 0 {
		return "", nil
	}
	r := rule{header: HeaderPrefixAwareID, max: 64, allowed: identifier, want: "printable characters that do not begin with a space"}
	return values[0], r.check(h, false)
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func identifier(s string) bool { return visible(s) && s != "" && s[0] != ' ' }

func session(s string) bool { return s == "NEW_SESSION" || isName(s) }

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}
