package proxy

import "bytes"

// Usage is what the backend says the request cost, in tokens.
type Usage struct {
	Known      bool // the answer had a usage object
	Prompt     int
	Completion int
	Cached     int  // of Prompt, found in the backend's prefix cache
	HasCached  bool // the backend reports Cached at all
}

// usageWindow is how much of an answer's end is searched for the usage object,
// in bytes: OpenAI's and vLLM's answers end with it, or nearly so.
const usageWindow = 2 << 10

// tail keeps the last bytes of an answer.
type tail struct {
	buf [2 * usageWindow]byte
	n   int
}

func (t *tail) write(p []byte) {
	if len(p) > usageWindow {
		p = p[len(p)-usageWindow:]
	}
	if t.n+len(p) > len(t.buf) {
		t.n = copy(t.buf[:], t.buf[t.n-usageWindow:t.n])
	}
	t.n += copy(t.buf[t.n:], p)
}

// usage reads the last usage object in the window. Field names are those of
// OpenAI's chat, completions and embeddings (prompt_tokens, completion_tokens,
// prompt_tokens_details.cached_tokens), Responses (input_tokens, output_tokens)
// and Anthropic's messages, whose input_tokens leaves out what was read from the
// cache (cache_read_input_tokens) or written to it (cache_creation_input_tokens).
func (t *tail) usage() Usage {
	obj := lastObject(t.buf[:t.n], `"usage"`)
	if obj == nil {
		return Usage{}
	}
	var u Usage
	if u.Prompt, u.Known = firstInt(obj, `"prompt_tokens"`); !u.Known {
		u.Prompt, u.Known = firstInt(obj, `"input_tokens"`)
		for _, key := range []string{`"cache_read_input_tokens"`, `"cache_creation_input_tokens"`} {
			n, _ := firstInt(obj, key)
			u.Prompt += n
		}
	}
	u.Completion, _ = firstInt(obj, `"completion_tokens"`, `"output_tokens"`)
	u.Cached, u.HasCached = firstInt(obj, `"cached_tokens"`, `"cache_read_input_tokens"`)
	if u.Cached > u.Prompt {
		u.Cached = u.Prompt
	}
	return u
}

// lastObject finds the last `key: {...}` in b that is closed. It goes forwards,
// and looks for the key without its opening quote: bytes.Index is quick up to the
// first byte of what it looks for, and JSON is full of quotes.
func lastObject(b []byte, key string) (last []byte) {
	for at := 0; ; {
		n := bytes.Index(b[at:], []byte(key[1:]))
		if n < 0 {
			return last
		}
		begin := at + n
		at = begin + len(key) - 1
		if begin == 0 || b[begin-1] != '"' {
			continue
		}
		if rest := afterColon(b[at:]); len(rest) > 0 && rest[0] == '{' {
			if obj := closed(rest); obj != nil {
				last = obj
			}
		}
	}
}

// closed returns b up to the brace that closes its first one. A usage object
// holds numbers and objects only, so braces in strings are no concern.
func closed(b []byte) []byte {
	depth := 0
	for i, c := range b {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return b[:i+1]
			}
		}
	}
	return nil
}

func firstInt(obj []byte, keys ...string) (int, bool) {
	for _, key := range keys {
		at := bytes.Index(obj, []byte(key))
		if at < 0 {
			continue
		}
		if n, ok := leadingInt(afterColon(obj[at+len(key):])); ok {
			return n, true
		}
	}
	return 0, false
}

// afterColon skips white space and one colon.
func afterColon(b []byte) []byte {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != ':' {
		return nil
	}
	return bytes.TrimLeft(b[1:], " \t\r\n")
}

func leadingInt(b []byte) (int, bool) {
	n, i := 0, 0
	for i < len(b) && i < 12 && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int(b[i]-'0')
		i++
	}
	return n, i > 0
}
