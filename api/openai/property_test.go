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

// The text of a chat does not depend on how it is written down.
func TestTextDoesNotDependOnWriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := writer{t}
		role, words := rapid.SampledFrom([]string{"user", "assistant"}), rapid.StringN(0, 60, -1)
		type turn struct{ role, content, name string }
		turns := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) turn {
			return turn{role.Draw(t, "role"), words.Draw(t, "content"), words.Draw(t, "name")}
		}), 0, 4).Draw(t, "turns")
		tool := object{{"name", `"f"`}, {"parameters", `[1]`}}
		write := func() []byte {
			messages := make([]string, len(turns))
			for i, m := range turns {
				content := w.quote(m.content)
				if rapid.Bool().Draw(t, "as parts") {
					content = w.array([]string{w.object(object{{"type", `"text"`}, {"text", content}})})
				}
				messages[i] = w.object(object{{"role", w.quote(m.role)}, {"content", content}, {"name", w.quote(m.name)}})
			}
			return []byte(w.object(object{
				{"messages", w.array(messages)},
				{"tools", w.array([]string{w.ordered(tool)})},
				{"temperature", rapid.SampledFrom([]string{"0", "1.5"}).Draw(t, "temperature")},
				{"stream", rapid.SampledFrom([]string{"true", "false"}).Draw(t, "stream")},
			}))
		}
		var first, second Scanner
		a, errA := scan(&first, Chat, prefix.MaxText, write())
		b, errB := scan(&second, Chat, prefix.MaxText, write(), 7)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if diff := cmp.Diff(a.Text, b.Text, sameRequest); diff != "" {
			t.Fatal(diff)
		}
	})
}

// repeated reports whether an object of the tree has a key twice.
func (n *node) repeated() bool {
	seen := map[string]bool{}
	for _, m := range n.members {
		if n.token == openObject && seen[m.key.text] || m.value.repeated() {
			return true
		}
		seen[m.key.text] = true
	}
	return false
}

// FuzzScan compares the Scanner, in one piece and in pieces of a length, with
// Decode. Where the Scanner passes over what Decode judges, it may accept more.
func FuzzScan(f *testing.F) {
	for i, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\ud83d\ude00"},{"image_url":{"url":"x"}}]}],"tools":[{"a":[1.5e3]}]}`,
		`{"prompt":[[1,2],[3]],"stream":true,"cache_salt":"s"}`,
		`{"input":[{"type":"function_call","call_id":"c","arguments":"{}"},{"output":[{"text":"t"}]}],"instructions":"i"}`,
		`{"input":["a","b"],"prompt_cache_key":null}`,
		`{"query":"q","documents":[{"text":"x"},"y"]}`,
		`{"text_1":"a","text_2":[1,2]}`,
		`{"system":[{"text":"s"}],"messages":[{"content":[{"type":"tool_result","content":[{"text":"r"}]}]}]}`,
		"\ufeff{\"input\":[{\"text\":\"t\"}]}",
		"{\"messages\":[{\"content\":\"\xff\"},{\"content\":\"\\ud800\"}],\"model\":\"\\u0000\"}",
	} {
		f.Add(uint8(i), []byte(body), uint16(3), uint16(20))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, size, limit uint16) {
		k := Kind(kind % uint8(len(kinds)))
		var s Scanner
		want, wantErr := Decode(k, prefix.MaxText, body)
		got, err := scan(&s, k, prefix.MaxText, body)
		tree, syntax := parse(body)
		switch {
		case err != nil && wantErr == nil && !tree.repeated():
			t.Fatalf("only the Scanner fails: %v", err)
		case err == nil && wantErr != nil && syntax == nil && !tree.repeated():
			t.Fatalf("only Decode fails: %v", wantErr)
		case err == nil && wantErr == nil && !s.Odd():
			if diff := cmp.Diff(want, got, sameRequest); diff != "" {
				t.Fatalf("Decode -, Scanner +\n%s", diff)
			}
		}
		var pieces Scanner
		again, errAgain := scan(&pieces, k, prefix.MaxText, body, int(size))
		if (err == nil) != (errAgain == nil) || s.Odd() != pieces.Odd() {
			t.Fatalf("in one piece: %v, in pieces: %v", err, errAgain)
		}
		if diff := cmp.Diff(got, again, sameRequest); diff != "" {
			t.Fatalf("one piece -, pieces +\n%s", diff)
		}
		// With a small limit less is judged, and the text is the beginning of
		// the whole text.
		short, errShort := scan(&pieces, k, int(limit), body, int(size))
		if err == nil && errShort != nil {
			t.Fatalf("only with a limit of %d: %v", limit, errShort)
		}
		if err == nil && !s.Odd() {
			n := min(len(got.Text.Bytes), max(1, int(limit)))
			if short.Text.Cut != (len(got.Text.Bytes) > n || got.Text.Cut) {
				t.Fatalf("limit %d of %d bytes: cut %v", limit, len(got.Text.Bytes), short.Text.Cut)
			}
			if !bytes.Equal(short.Text.Bytes, got.Text.Bytes[:n]) {
				t.Fatalf("limit %d: %q is not the beginning of %q", limit, short.Text.Bytes, got.Text.Bytes)
			}
		}
		pieces.Reset(k, int(limit))
		_ = pieces.Feed(body[:len(body)/2])
		pieces.Partial()
	})
}
