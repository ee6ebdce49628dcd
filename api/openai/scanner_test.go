package openai

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/routing/prefix"
)

// both reads a body with the Scanner, in one piece and byte by byte, and with
// Decode, and requires that all agree.
func both(t *testing.T, k Kind, limit int, body string) (*Request, error) {
	t.Helper()
	want, wantErr := Decode(k, limit, []byte(body))
	var s Scanner
	for _, size := range []int{max(1, len(body)), 1} {
		got, err := scan(&s, k, limit, []byte(body), size)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("Scanner: %v, Decode: %v, of %.500s", err, wantErr, body)
		}
		if diff := cmp.Diff(want, got, sameRequest); diff != "" && !s.Odd() {
			t.Fatalf("%.500s\nDecode -, Scanner +\n%s", body, diff)
		}
		if wantErr != nil {
			wantErr = err
		}
	}
	return want, wantErr
}

// readable writes framing as letters.
func readable(text []byte) string {
	return string(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte{frameByte}, []byte("~")), []byte{quoteByte}, []byte("'")))
}

func TestCanonicalText(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		body string
		want string
		ends []int
		user int
	}{
		{Chat, `{"messages":[]}`, "", nil, 0},
		{
			Chat, `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}`,
			"~M~rsystem~cbe brief~M~ruser~chi",
			[]int{20, 32},
			32,
		},
		{ // tools come first, and in a message the role, however they arrive
			Chat, `{"messages":[{"content":"hi","name":"Ann","role":"user"}],"tools":[ {"type" : "function","n":[1,-2.5e3,true,null]} ]}`,
			"~T[{'type''function''n'[1,-2.5e3,true,null,]}]~M~ruser~chi~nAnn",
			[]int{46, 63},
			63,
		},
		{
			Chat, `{"functions":[{"name":"f"}],"tools":[],"messages":[{"role":"user"}]}`,
			"~T[]~F[{'name''f'}]~M~ruser",
			[]int{4, 19, 27},
			27,
		},
		{
			Chat, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1"}],"reasoning_content":"hm"},{"role":"tool","tool_call_id":"c1","content":"42"}]}`,
			"~M~rassistant~t[{'id''c1'}]~M~rtool~c42~ic1",
			[]int{27, 43},
			0,
		},
		{ // one text part is as good as a string; parts are told apart
			Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"one"}]},{"content":[{"text":"a","type":"text"},"b",{"type":"thinking","thinking":"x"},{"text":""}]}]}`,
			"~M~ruser~cone~M~ca~pb~p",
			[]int{13, 23},
			13,
		},
		{
			Chat, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"what?"}]}]}`,
			"~M~c~x" + "74cf00a579b12987" + "~pwhat?",
			[]int{29},
			0,
		},
		{Chat, `{"messages":[{"role":"\u0075ser","con\u0074ent":"\u00e9\ud83d\ude00\n\ud800x\/"}]}`, "~M~ruser~cé😀\n\uFFFDx/", []int{22}, 22},
		{Completions, `{"prompt":"Once"}`, "~POnce", []int{6}, 0},
		{Completions, `{"prompt":["a","b"]}`, "~Pa~Pb", []int{3, 6}, 0},
		{Completions, `{"prompt":[1,22]}`, "~I1,22,", []int{7}, 0},
		{Completions, `{"prompt":[[1],[22,3]]}`, "~I1,~I22,3,", []int{4, 11}, 0},
		{Completions, `{"prompt":[]}`, "", nil, 0},
		{Completions, `{"prompt":null,"prompt_embeds":"AAAA"}`, "~E'AAAA'", nil, 0},
		{Completions, "\ufeff" + `{"prompt":"Once"}`, "~POnce", []int{6}, 0},
		{Embeddings, `{"input":["a"]}`, "~Pa", []int{3}, 0},
		{Embeddings, `{"input":[{"text":"a","image":"b"},{"text":"c"}]}`, "~P{'text''a''image''b'}~P{'text''c'}", []int{23, 36}, 0},
		{Embeddings, `{"messages":[{"role":"user","content":"a"}]}`, "~M~ruser~ca", []int{11}, 11},
		{Rerank, `{"documents":["d",{"text":"e"}],"query":"q"}`, "~Q~Pq~D~Pd~P{'text''e'}", []int{5, 10, 23}, 0},
		{Score, `{"text_1":"a","text_2":["b","c"]}`, "~Q~Pa~D~Pb~Pc", []int{5, 10, 13}, 0},
		{Responses, `{"input":"hi","instructions":"be brief"}`, "~M~rsystem~cbe brief~M~ruser~chi", []int{20, 32}, 32},
		{Responses, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, "~M~ruser~chi", []int{12}, 12},
		{
			Responses, `{"input":[{"type":"function_call","name":"f","arguments":"{}","call_id":"c","id":"x"},{"type":"function_call_output","call_id":"c","output":"42"}]}`,
			"~M~nf~a{}~ic~M~o42~ic",
			[]int{12, 21},
			0,
		},
		{Responses, `{"input":[{"type":"x","action":{"b":1,"a":"y"}}]}`, "~M~x" + "0594cb4f7e014d4b", []int{20}, 0},
		{Responses, `{"previous_response_id":"r"}`, "", nil, 0},
		{
			Messages, `{"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":"hi"}],"tools":[]}`,
			"~T[]~M~rsystem~ca~pb~M~ruser~chi",
			[]int{4, 20, 32},
			32,
		},
		{
			Messages, `{"messages":[{"content":[{"type":"tool_use","input":{"x":1}},{"type":"tool_result","content":[{"type":"text","text":"r"},{"content":"s"}]}]}]}`,
			"~M~c~j{'x'1,}~p~cr~p~x" + "91a1c9b9e869ee70",
			[]int{38},
			0,
		},
	} {
		r, err := both(t, c.kind, prefix.MaxText, c.body)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := readable(r.Text.Bytes); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.body, got, c.want)
		}
		if diff := cmp.Diff(c.ends, r.Text.Ends, sameRequest); diff != "" || r.Text.FirstUser != c.user {
			t.Errorf("%s: ends %v, first user message %d; want %v, %d", c.body, r.Text.Ends, r.Text.FirstUser, c.ends, c.user)
		}
	}
}

func TestSettings(t *testing.T) {
	for body, want := range map[string]Request{
		`{}`: {},
		`{"model":null,"stream":null,"prompt_cache_key":null}`: {},
		`{"model":"m","stream":true,"cache_salt":"s"}`:         {Model: "m", Stream: true, Tenant: "s"},
		`{"cache_salt":"s","prompt_cache_key":"k"}`:            {Tenant: "k"},
		`{"prompt_cache_key":"","cache_salt":"s"}`:             {Tenant: "s"},
		`{"mod\u0065l":"m\u00e9","metadata":{"model":"x"}}`:    {Model: "mé"},
		`{"model":"` + strings.Repeat("m", 5000) + `"}`:        {Model: strings.Repeat("m", 5000)},
	} {
		r, err := both(t, Responses, 100, body)
		if err != nil {
			t.Errorf("%.100s: %v", body, err)
			continue
		}
		if r.Model != want.Model || r.Tenant != want.Tenant || r.Stream != want.Stream {
			t.Errorf("%.100s: %+v, want %+v", body, *r, want)
		}
	}
}

// chatOf is a chat body with the value as the content of its only message.
func chatOf(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }

func TestBadBodies(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, c := range []struct {
		kind  Kind
		body  string
		param string // where the error is
		about string // a part of the message
	}{
		{Chat, ``, "", "must be a JSON object"},
		{Chat, `  `, "", "must be a JSON object"},
		{Chat, `[]`, "", "must be a JSON object"},
		{Chat, `"x"`, "", "must be a JSON object"},
		{Chat, "\xef\xbb\xbf", "", "must be a JSON object"},
		{Chat, "\xef\xbb\xbf\xef\xbb\xbf{}", "", "must be a JSON object"},
		{Chat, " \xef\xbb\xbf{}", "", "must be a JSON object"},
		{Chat, `{"messages":[]`, "messages", "ends early"},
		{Chat, `{"messages":[]} x`, "messages", "nothing more"},
		{Chat, `{"messages":[]}{}`, "messages", "nothing more"},
		{Chat, `{"messages":[],}`, "messages", "a key"},
		{Chat, `{"messages":[{},]}`, "messages", "a value"},
		{Chat, `{"messages":[}`, "messages", ""},
		{Chat, `{"messages" []}`, "messages", "a colon"},
		{Chat, `{"messages":[] "a":1}`, "messages", "a comma"},
		{Chat, `{messages:[]}`, "", "a key in quotes"},
		{Chat, `{"messages":[],"a":01}`, "", "a comma"},
		{Chat, `{"messages":[],"a":1.}`, "", "not complete"},
		{Chat, `{"messages":[],"a":-}`, "", "not complete"},
		{Chat, `{"messages":[],"a":1e+}`, "", "not complete"},
		{Chat, `{"messages":[],"a":nul}`, "", "true, false or null"},
		{Chat, `{"messages":[],"a":NaN}`, "", "a value"},
		{Chat, chatOf("\"a\nb\""), "messages[0].content", "control character"},
		{Chat, chatOf("\"a\x00b\""), "messages[0].content", "control character"},
		{Chat, chatOf(`"a\x"`), "messages[0].content", "backslash"},
		{Chat, chatOf(`"\u12g4"`), "messages[0].content", "hexadecimal"},
		{Chat, `{"messages":[],"a":` + deep + `}`, "", "deeper than 128"},
		{Chat, `{"messages":[],"tools":[` + deep + `]}`, "tools", "deeper than 128"},
		{Responses, `{"input":[{"x":` + deep + `}]}`, "", "deeper than 128"},

		{Chat, `{}`, "messages", "is required"},
		{Chat, `{"messages":null}`, "messages", "is required"},
		{Messages, `{}`, "messages", "is required"},
		{Completions, `{"prompt":null}`, "prompt", "is required"},
		{Embeddings, `{}`, "input", "is required"},

		{Chat, `{"model":1}`, "model", "must be a string, not a number"},
		{Chat, `{"stream":"true"}`, "stream", "must be true or false, not a string"},
		{Chat, `{"stream":0}`, "stream", "must be true or false, not a number"},
		{Chat, `{"prompt_cache_key":["x"]}`, "prompt_cache_key", "must be a string, not an array"},
		{Chat, `{"cache_salt":true}`, "cache_salt", "must be a string, not a boolean"},
		{Chat, `{"model":"` + strings.Repeat("m", maxSetting+1) + `"}`, "model", "at most 65536 bytes"},
		{Chat, `{"model":"` + "\xff" + `"}`, "model", "must be valid UTF-8"},
		{Chat, `{"messages":{}}`, "messages", "must be an array of messages, not an object"},
		{Chat, `{"messages":[{},null]}`, "messages[1]", "must be an object, not null"},
		{Chat, `{"messages":["x"]}`, "messages[0]", "must be an object, not a string"},
		{Chat, `{"messages":[{"role":1}]}`, "messages[0].role", "must be a string, not a number"},
		{Chat, `{"messages":[{},{"content":{}}]}`, "messages[1].content", "must be a string or an array of parts, not an object"},
		{Chat, `{"messages":[{"content":[{},[]]}]}`, "messages[0].content[1]", "must be an object, not an array"},
		{Chat, `{"messages":[{"content":[{"text":1}]}]}`, "messages[0].content[0].text", "must be a string, not a number"},
		{Chat, `{"messages":[{"tool_calls":{}}]}`, "messages[0].tool_calls", "must be an array, not an object"},
		{Chat, `{"tools":"x"}`, "tools", "must be an array, not a string"},
		{Chat, chatOf("\"\xff\""), "messages[0].content", "must be valid UTF-8"},
		{Chat, chatOf("\"\xe4\xb8\""), "messages[0].content", "must be valid UTF-8"},
		{Chat, chatOf("\"\xed\xa0\x80\""), "messages[0].content", "must be valid UTF-8"},
		{Messages, `{"system":1}`, "system", "must be a string or an array of parts, not a number"},
		{Messages, `{"system":[{"text":[]}]}`, "system[0].text", "must be a string, not an array"},
		{Responses, `{"input":1}`, "input", "must be a string or an array of items, not a number"},
		{Completions, `{"prompt":{}}`, "prompt", "must be a string, an array of"},
		{Completions, `{"prompt":1}`, "prompt", "must be a string, an array of"},
		{Completions, `{"prompt":["a",1]}`, "prompt", "not a number"},
		{Completions, `{"prompt":[["a"]]}`, "prompt", "not a string"},
		{Completions, `{"prompt":[null]}`, "prompt", "not null"},
		{Embeddings, `{"input":[true]}`, "input", "not a boolean"},
	} {
		_, err := both(t, c.kind, prefix.MaxText, c.body)
		e, ok := errors.AsType[*FieldError](err)
		if !ok {
			t.Errorf("%.100s: %v is not a FieldError", c.body, err)
			continue
		}
		if e.Param != c.param && !strings.HasPrefix(e.Message, "malformed") || !strings.Contains(e.Message, c.about) {
			t.Errorf("%.100s: %q %q, want %q and %q", c.body, e.Param, e.Message, c.param, c.about)
		}
		if _, err := Decode(c.kind, prefix.MaxText, []byte(c.body)); !strings.HasPrefix(e.Message, "malformed") && err.Error() != e.Error() {
			t.Errorf("%.100s: Decode says %q, Scanner %q", c.body, err, e)
		}
	}
}

func TestErrorIsFinal(t *testing.T) {
	var s Scanner
	s.Reset(Chat, 100)
	first := s.Feed([]byte(`{"model":1`))
	if first == nil {
		t.Fatal("no error")
	}
	if err := s.Feed([]byte(`,"messages":[]}`)); err != first { //nolint:errorlint // the same value is the point
		t.Errorf("Feed: %v, want %v", err, first)
	}
	if _, err := s.Finish(); err != first { //nolint:errorlint // the same value is the point
		t.Errorf("Finish: %v, want %v", err, first)
	}
	s.Reset(Chat, 100)
	if _, err := scan(&s, Chat, 100, []byte(`{"messages":[]}`)); err != nil {
		t.Errorf("after Reset: %v", err)
	}
}

// What is behind the limit is not judged, only its structure is.
func TestSkippedIsNotJudged(t *testing.T) {
	body := chatOf("\"0123456789 \xff \\x \x01 \\\" \\\\\"") + " "
	var s Scanner
	for size := 1; size <= len(body); size++ {
		r, err := scan(&s, Chat, 20, []byte(body), size)
		if err != nil || readable(r.Text.Bytes) != "~M~ruser~c0123456789" {
			t.Fatalf("in pieces of %d: %v, %v", size, r, err)
		}
	}
	if _, err := scan(&s, Chat, 20, []byte(strings.Replace(body, "}]}", "}}", 1))); err == nil {
		t.Error("the structure behind the limit is not checked")
	}
}

// What a lone surrogate becomes may go over the limit, be it of the text, of a
// key or of what is digested in one step.
func TestSurrogateAtTheLimit(t *testing.T) {
	for limit := range 40 {
		r, err := both(t, Chat, limit, chatOf(`"0123456789\ud800x"`))
		if err != nil || !strings.HasPrefix("~M~ruser~c0123456789\uFFFDx", readable(r.Text.Bytes[:min(len(r.Text.Bytes), 20)])) {
			t.Errorf("limit %d: %v, %v", limit, r, err)
		}
	}
	for before := range 2 * len(new(Scanner).chunk) {
		value := strings.Repeat("a", before) + `\ud800x`
		if _, err := scan(new(Scanner), Chat, 100, []byte(chatOf(`[{"`+value+`":"`+value+`"}]`))); err != nil {
			t.Fatalf("%d bytes before it: %v", before, err)
		}
	}
}

func TestPartial(t *testing.T) {
	var s Scanner
	s.Reset(Chat, 100)
	if err := s.Feed([]byte(`{"model":"m","messages":[{"content":"one","role":"user"},{"content":"tw`)); err != nil {
		t.Fatal(err)
	}
	r := s.Partial()
	want := &Request{Model: "m", Text: prefix.Text{Bytes: []byte("\xffM\xffruser\xffcone\xffM\xffctw"), Ends: []int{13}, FirstUser: 13}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Finish(); err == nil {
		t.Error("half a body is complete")
	}
	for cut := range chatOf(`[{"text":"a"},{"content":[{"text":"b"}]}]`) {
		s.Reset(Chat, 100)
		if err := s.Feed([]byte(chatOf(`[{"text":"a"},{"content":[{"text":"b"}]}]`)[:cut])); err != nil {
			t.Fatal(err)
		}
		s.Partial()
	}
}

func TestDuplicateKeys(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[],"messages":[{"role":"user"}]}`:                        "~M~ruser",
		`{"messages":[{"role":"user","content":"a","r\u006fle":"x"}]}`:        "~M~rx~ca",
		`{"messages":[{"content":[{"text":"a","text":"b"}]}]}`:                "~M~cb",
		`{"messages":[{"content":[{"text":"a","refusal":"b"}]}],"model":"x"}`: "~M~cb",
	} {
		r, err := both(t, Chat, 100, body)
		if err != nil || readable(r.Text.Bytes) != want {
			t.Errorf("%s: %v, %v", body, r, err)
		}
		var s Scanner
		if _, err := scan(&s, Chat, 100, []byte(body)); err != nil || !s.Odd() {
			t.Errorf("%s is not odd: %v", body, err)
		}
	}
	for _, body := range []string{
		`{"messages":[{"x":1,"x":2}],"y":1,"y":2,"tools":[{"a":1,"a":2}]}`,
		`{"messages":[{"content":[{"image_url":"a","image_url":"b"}]}]}`,
	} {
		var s Scanner
		if _, err := scan(&s, Chat, 100, []byte(body)); err != nil || s.Odd() {
			t.Errorf("%s: odd or %v", body, err)
		}
		if _, err := both(t, Chat, 100, body); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	body := chatBody(32<<10, true)
	body = append([]byte(`{"prompt_cache_key":"a tenant","metadata":{"image_url":[1,"x"]},`), body[1:]...)
	var s Scanner
	read := func() {
		if _, err := scan2(&s, body); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(50, read); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// scan2 reads a chat body in two pieces and copies nothing.
func scan2(s *Scanner, body []byte) (*Request, error) {
	s.Reset(Chat, prefix.MaxText)
	half := len(body) / 2
	if err := errors.Join(s.Feed(body[:half]), s.Feed(body[half:])); err != nil {
		return nil, err
	}
	return s.Finish()
}

// A name that the input has not come to the end of is not known yet.
func TestPartialNames(t *testing.T) {
	var s Scanner
	for _, c := range []struct{ in, model, tenant string }{
		{`{"messages":[],"model":"lla`, "", ""},
		{`{"messages":[],"model":"llama"`, "llama", ""},
		{`{"model":"llama","prompt_cache_key":"ten`, "llama", ""},
		{`{"model":"llama","cache_salt":"a","prompt_cache_key":"ten`, "llama", "a"},
		{`{"model":"llama","cache_salt":"a","prompt_cache_key":"tenant","x":"`, "llama", "tenant"},
	} {
		s.Reset(Chat, 100)
		if err := s.Feed([]byte(c.in)); err != nil {
			t.Fatal(err)
		}
		if r := s.Partial(); r.Model != c.model || r.Tenant != c.tenant {
			t.Errorf("%s: model %q, tenant %q; want %q, %q", c.in, r.Model, r.Tenant, c.model, c.tenant)
		}
	}
}
