package openai

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing/prefix"
)

// sameRequest ignores the difference between nil and empty.
var sameRequest = cmpopts.EquateEmpty()

// scan reads a body in pieces of the lengths given, the last one repeated.
func scan(s *Scanner, k Kind, limit int, body []byte, cuts ...int) (*Request, error) {
	s.Reset(k, limit)
	for i := 0; len(body) > 0; i++ {
		n := len(body)
		if len(cuts) > 0 {
			n = min(n, max(1, cuts[min(i, len(cuts)-1)]))
		}
		piece := bytes.Clone(body[:n])
		err := s.Feed(piece)
		clear(piece) // the Scanner may keep nothing of it
		if err != nil {
			return nil, err
		}
		body = body[n:]
	}
	return s.Finish()
}

func TestScannerAgreesWithDecode(t *testing.T) {
	var s Scanner
	rapid.Check(t, func(t *rapid.T) {
		k, body := body(t)
		limit := rapid.OneOf(rapid.Just(prefix.MaxText), rapid.IntRange(1, 3000)).Draw(t, "limit")
		if !json.Valid(body) {
			t.Fatalf("the generator is wrong: %s", body)
		}
		want, err := Decode(k, limit, body)
		if err != nil {
			t.Fatalf("Decode: %v\n%s", err, body)
		}
		got, err := scan(&s, k, limit, body, rapid.SliceOfN(rapid.IntRange(1, 400), 1, 5).Draw(t, "cuts")...)
		if err != nil {
			t.Fatalf("Scanner: %v\n%s", err, body)
		}
		if diff := cmp.Diff(want, got, sameRequest); diff != "" {
			t.Fatalf("kind %d, limit %d, body %s\nDecode -, Scanner +\n%s", k, limit, body, diff)
		}
		if s.Odd() {
			t.Fatalf("odd: %s", body)
		}
	})
}
