package modelserver

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Text that begins alike has tokens and blocks that begin alike, up to the
// token or block in which it differs, and no further.
func TestTokensArePrefixStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, block := rapid.IntRange(1, 9).Draw(t, "size"), rapid.IntRange(1, 5).Draw(t, "block")
		common := rapid.String().Draw(t, "common")
		one := encode(nil, common+"<"+rapid.String().Draw(t, "one"), size)
		two := encode(nil, common+">"+rapid.String().Draw(t, "two"), size)
		shared := 0
		for shared < min(len(one), len(two)) && one[shared] == two[shared] {
			shared++
		}
		if want := len(common) / size; shared != want {
			t.Fatalf("%d tokens shared, want %d", shared, want)
		}
		var h hasher
		a, b := h.chain(1, one, block), h.chain(1, two, block)
		for i := range min(len(a), len(b)) {
			if same := a[i] == b[i]; same != (i < shared/block) {
				t.Fatalf("block %d: same is %v with %d tokens shared", i, same, shared)
			}
		}
		if len(a) > 0 && h.chain(2, one, block)[0] == a[0] {
			t.Fatal("another root gives the same blocks")
		}
	})
}

func TestAnswersHaveTheirLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, n, size := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 50).Draw(t, "n"), rapid.IntRange(1, 64).Draw(t, "size")
		text := compose(seed, n, size)
		if got := len(encode(nil, text, size)); got != n || text != compose(seed, n, size) {
			t.Fatalf("%q has %d tokens, want %d", text, got, n)
		}
		if strings.TrimSpace(text) != text && n > 0 && size > 1 {
			t.Fatalf("%q would not survive trimming", text)
		}
	})
}

func TestChatsGrowAtTheirEnd(t *testing.T) {
	content := func(s string) json.RawMessage {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	tools := json.RawMessage(`[ {"type": "function"} ]`)
	chat := []message{{Role: "system", Content: content("Be kind.")}, {Role: "user", Content: content("Hello, you")}}
	prompt, err := render(tools, chat, 4)
	if err != nil {
		t.Fatal(err)
	}
	answer := compose(7, 5, 4)
	known := encode(slices.Clip(prompt), answer, 4)
	chat = append(chat, message{Role: "assistant", Content: content(answer)}, message{Role: "user", Content: content("Why?")})
	next, err := render(json.RawMessage(`[{"type":"function"}]`), chat, 4)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(next[:len(known)], known) {
		t.Errorf("the next turn does not begin with prompt and answer:\n%v\n%v", known, next)
	}
	other, err := render(nil, chat, 4)
	if err != nil || other[0] == next[0] {
		t.Errorf("tools do not come first: %v, %v", other, err)
	}
}

func TestPartsAreText(t *testing.T) {
	whole, err := render(nil, []message{{Role: "user", Content: json.RawMessage(`"one two"`)}}, 4)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := render(nil, []message{{Role: "user", Content: json.RawMessage(`[{"type":"text","text":"one "},{"type":"text","text":"two"}]`)}}, 4)
	if err != nil || !slices.Equal(parts, whole) {
		t.Errorf("parts give %v (%v), want %v", parts, err, whole)
	}
}

// Any body is either understood or answered with an error in the API's shape.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},7]}],"tools":[{}]}`,
		`{"prompt":[[1,2],"x",null]}`, `{"input":[{"role":"user","content":"x"},{"type":"function_call"}]}`, `{`, `null`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body struct {
			chatBody
			Prompt json.RawMessage `json:"prompt"`
		}
		var input responsesBody
		for _, err := range []error{
			decode(data, &body),
			decode(data, &input),
			second(render(body.Tools, body.Messages, 4)),
			second(promptTokens(body.Prompt, "prompt", 4)),
			second(input.messages()),
		} {
			var api *apiError
			if err != nil && !errors.As(err, &api) {
				t.Errorf("%q: %v has no shape", data, err)
			}
		}
	})
}

// second returns its second argument.
func second[T any](_ T, err error) error { return err }
