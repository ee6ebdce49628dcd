package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing/prefix"
)

// Nesting is refused where it begins to be too deep,
// whatever is sent behind it.
func TestDeepNestingIsRefusedEarly(t *testing.T) {
	var s Scanner
	s.Reset(Chat, prefix.MaxText)
	piece := bytes.Repeat([]byte("["), 32<<10)
	err := s.Feed([]byte(`{"x":`))
	fed := 0
	for ; err == nil && fed < 100<<20; fed += len(piece) {
		err = s.Feed(piece)
	}
	if err == nil || fed > len(piece) {
		t.Errorf("%v after %d bytes", err, fed)
	}
	if n := testing.AllocsPerRun(10, func() { _ = s.Feed(piece) }); n != 0 {
		t.Errorf("%v allocations for what follows", n)
	}
}

// What the prompt consists of is in the text, nothing else is.
func TestWhatChangesTheText(t *testing.T) {
	text := func(body string) string {
		t.Helper()
		r, err := both(t, Chat, prefix.MaxText, body)
		if err != nil {
			t.Fatal(err)
		}
		return readable(r.Text.Bytes) + fmt.Sprint(r.Text.Ends, r.Text.FirstUser)
	}
	base := text(`{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`)
	for _, same := range []string{
		` { "messages" : [ { "content":"s" , "role":"system" } , {"role":"user","content":"u"} ] ,"tools":[{"name" : "f"} ] } `,
		`{"temperature":0.3,"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"user":"a","tools":[{"name":"f"}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`,
		`{"model":"m","prompt_cache_key":"t","tools":[{"n\u0061me":"f"}],"messages":[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":"\u0075"}]}`,
	} {
		if text(same) != base {
			t.Errorf("%s has another text", same)
		}
	}
	for _, other := range []string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`,
		`{"tools":[{"name":"g"}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`,
		`{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"S"},{"role":"user","content":"u"}]}`,
		`{"tools":[{"name":"f"}],"messages":[{"role":"user","content":"s"},{"role":"user","content":"u"}]}`,
		`{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"su"},{"role":"user","content":""}]}`,
		`{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"s"}]}`,
	} {
		if text(other) == base {
			t.Errorf("%s has the same text", other)
		}
	}
}

// The chain of a growing chat grows, and tenants share nothing.
func TestGrowingChat(t *testing.T) {
	var messages []string
	var before []uint64
	for turn := range 6 {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[turn%2], strings.Repeat("words ", 10+70*turn)))
		r, err := both(t, Chat, prefix.MaxText, `{"messages":[`+strings.Join(messages, ",")+`],"tools":[{"name":"f"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		chain := prefix.AppendChain(nil, prefix.Root(1, "a"), &r.Text)
		if len(chain) <= len(before) || cmp.Diff(before, chain[:len(before)], sameRequest) != "" {
			t.Fatalf("turn %d does not go on where the one before it ended", turn)
		}
		for i, h := range prefix.AppendChain(nil, prefix.Root(1, "b"), &r.Text) {
			if h == chain[i] {
				t.Fatal("two tenants share a key")
			}
		}
		before = chain
	}
}

// A body that makes the Scanner hold all it can costs a bounded buffer.
func TestBufferIsBounded(t *testing.T) {
	long := `"` + strings.Repeat("x", 2*prefix.MaxText) + `"`
	message := `{"reasoning":0,"tool_call_id":` + long + `,"function_call":` + long + `,"name":` + long + `,"content":[{"input":` + long + `,"text":` + long + `}],"role":` + long + `}`
	body := `{"messages":[` + message + "," + message + `],"functions":[` + long + `],"tools":[` + long + `]}`
	var s Scanner
	r, err := scan(&s, Chat, prefix.MaxText, []byte(body), 64<<10)
	if err != nil || len(r.Text.Bytes) != prefix.MaxText {
		t.Fatal(err)
	}
	if held := cap(s.text.buf) + cap(s.text.spare); held > 16*prefix.MaxText {
		t.Errorf("%d bytes held", held)
	}
	s.Reset(Chat, prefix.MaxText)
	if held := cap(s.text.buf) + cap(s.text.spare); held > 2*keepBytes {
		t.Errorf("%d bytes kept", held)
	}
}
