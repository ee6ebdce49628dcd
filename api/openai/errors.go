package openai

import "fmt"

// FieldError says what is wrong with a body.
type FieldError struct {
	Param   string // where: a path such as "messages[2].content"; "" is the body
	Message string // what is wrong there and what would be right
}

func (e *FieldError) Error() string {
	if e.Param == "" {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// promptTypes is what a prompt may be.
const promptTypes = "a string, an array of strings, of token ids or of arrays of token ids"

// wrongType describes a value of the wrong type: one that begins with t, and
// if it is a literal, with first.
func wrongType(want string, t token, first byte) error {
	var got string
	switch t {
	default:
		got = "an object"
	case openArray:
		got = "an array"
	case stringStart:
		got = "a string"
	case literalStart:
		switch first {
		case 't', 'f':
			got = "a boolean"
		case 'n':
			got = "null"
		default:
			got = "a number"
		}
	}
	return &FieldError{Message: fmt.Sprintf("must be %s, not %s", want, got)}
}

func malformed(what string) error { return &FieldError{Message: "malformed JSON: " + what} }

func notObject() error { return &FieldError{Message: "the body must be a JSON object"} }

func notUTF8() error { return &FieldError{Message: "must be valid UTF-8"} }

func tooDeep() error {
	return malformed(fmt.Sprintf("nesting is deeper than %d levels", maxDepth))
}

func tooLong() error {
	return &FieldError{Message: fmt.Sprintf("must be at most %d bytes long", maxSetting)}
}
