package load

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestStream(t *testing.T) {
	const (
		role  = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
		hello = `data: {"choices":[{"delta":{"content":"hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	for _, tc := range []struct {
		name, body, text string
		err              error
		want             Request // First counts as zero or not
	}{
		{
			name: "whole", text: "hello",
			body: ": comment\nevent: x\n" + role + hello + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n" + done,
			want: Request{First: 1, Prompt: 9, Output: 2, Cached: 4, Metered: true},
		},
		{name: "no details", text: "hello", body: hello + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":null}}` + "\n\n" + done, want: Request{First: 1, Prompt: 9, Output: 2}},
		{name: "no space", text: "hello", body: strings.ReplaceAll(hello+done, "data: ", "data:"), want: Request{First: 1}},
		{name: "no text", body: role + done, want: Request{First: 1}},
		{name: "a thought first, as vLLM calls it", body: `data: {"choices":[{"delta":{"reasoning":"hm"}}]}` + "\n\n" + done, want: Request{First: 1}},
		{name: "a thought first", body: `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n" + done, want: Request{First: 1}},
		{name: "empty", err: ErrBroken},
		{name: "cut", body: hello, text: "hello", err: ErrBroken, want: Request{First: 1}},
		{name: "error", body: hello + `data: {"error":{"message":"out of memory"}}` + "\n\n", text: "hello", err: ErrEvent, want: Request{First: 1}},
		{name: "not JSON", body: "data: <html>\n\n", err: ErrDialect},
		{
			name: "more cached than asked", text: "hello",
			body: hello + `data: {"usage":{"prompt_tokens":9,"completion_tokens":-2,"prompt_tokens_details":{"cached_tokens":40}}}` + "\n\n" + done, want: Request{First: 1, Prompt: 9},
		},
		{name: "an endless line", body: "data: " + strings.Repeat("x", maxEvent+1), err: ErrBroken},
	} {
		for _, keep := range []bool{true, false} {
			var got Request
			var text strings.Builder
			s := &stream{began: time.Now().Add(-time.Second), into: &got}
			if keep {
				s.text = &text
			}
			err := s.read(strings.NewReader(tc.body))
			if got.First > 0 {
				got.First = 1
			}
			if !errors.Is(err, tc.err) || got != tc.want || keep && text.String() != tc.text {
				t.Errorf("%s: %v, %+v, %q; want %v, %+v, %q", tc.name, err, got, text.String(), tc.err, tc.want, tc.text)
			}
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"usage\":{\"prompt_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		var r Request
		s := &stream{began: time.Now().Add(-time.Second), into: &r, text: &strings.Builder{}}
		err := s.read(strings.NewReader(body))
		if err == nil && !strings.Contains(body, "[DONE]") {
			t.Errorf("%q is a whole stream", body)
		}
	})
}

func TestParseBase(t *testing.T) {
	for text, want := range map[string]string{
		"http://h:1":         "http://h:1/v1",
		"http://h:1/":        "http://h:1/v1",
		"https://h/v1/":      "https://h/v1",
		"http://h/other/api": "http://h/other/api",
		"h:1":                "",
		"ftp://h":            "",
		"http://h/v1?x=1":    "",
		"http://user:pw@h/":  "",
		"":                   "",
	} {
		got, err := ParseBase(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
