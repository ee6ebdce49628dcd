package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warmring/warmring/routing/prefix"
)

// chatBody makes a chat of about size bytes: a system prompt, then turns, of
// prose with some quotes and line breaks. With tools, half of it is
// definitions, in front.
func chatBody(size int, tools bool) []byte {
	sentences := [4]string{
		"The pager said \"disk full\" again, so we moved the logs to the other volume and wrote it down.\n",
		"Nobody noticed until the morning, when the first report came in from the other office. ",
		"Both copies were there and both were whole, as far as anyone could tell.\n",
		"What we would like is a plan for the next time that does not need a person awake at night. ",
	}
	prose := func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(sentences[i%4])
		}
		return b.String()[:n]
	}
	var b strings.Builder
	b.WriteString(`{"model":"llama-3-8b",`)
	if tools {
		b.WriteString(`"tools":[`)
		for i := 0; b.Len() < size/2; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"type":"function","function":{"name":"look_up_%d","description":%q,"parameters":{"type":"object",`+
				`"properties":{"query":{"type":"string","description":"What to look for"},"limit":{"type":"integer"}},"required":["query"]}}}`,
				i, prose(150))
		}
		b.WriteString(`],`)
	}
	b.WriteString(`"messages":[`)
	left := (size - b.Len()) * 9 / 10
	text, _ := json.Marshal(prose(left / 3))
	fmt.Fprintf(&b, `{"role":"system","content":%s}`, text)
	for i := range 4 {
		text, _ := json.Marshal(prose(left / 6))
		fmt.Fprintf(&b, `,{"role":%q,"content":%s}`, []string{"user", "assistant"}[i%2], text)
	}
	b.WriteString(`],"temperature":0.7,"stream":true}`)
	return []byte(b.String())
}

// turns makes a chat of 100 messages of 2 KB, with as many quotes and line breaks as code has.
func turns() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"llama-3-8b","messages":[`)
	text, _ := json.Marshal(strings.Repeat("if name == \"disk\" {\n\treturn the first of them, or \"none\"\n}\n", 30))
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":%q,"content":%s}`, []string{"user", "assistant"}[i%2], text)
	}
	b.WriteString(`],"stream":true}`)
	return []byte(b.String())
}

// Limits that the router sets.
const (
	key1024  = 1024      // for the key of 1,024 characters, when each is a byte
	most1024 = 4 * 1024  // the same, when they are not
	auto     = 4096      // with nothing hot
	counting = 256 << 10 // for a chain of all
)

// benchmarkScan measures a scan for the key of 1,024 characters.
func benchmarkScan(b *testing.B, body []byte, limit int) {
	b.Helper()
	var s Scanner
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.Reset(Chat, limit)
		if err := s.Feed(body); err != nil {
			b.Fatal(err)
		}
		r, err := s.Finish()
		if err != nil {
			b.Fatal(err)
		}
		prefix.Fixed(1, &r.Text, 1024)
		prefix.Enough(&r.Text, 1024)
	}
}

func BenchmarkKey4K(b *testing.B)         { benchmarkScan(b, chatBody(4<<10, false), key1024) }
func BenchmarkKey200K(b *testing.B)       { benchmarkScan(b, chatBody(200<<10, false), key1024) }
func BenchmarkKey200KTools(b *testing.B)  { benchmarkScan(b, chatBody(200<<10, true), key1024) }
func BenchmarkScan4K(b *testing.B)        { benchmarkScan(b, chatBody(4<<10, false), most1024) }
func BenchmarkScan32K(b *testing.B)       { benchmarkScan(b, chatBody(32<<10, false), most1024) }
func BenchmarkScan200K(b *testing.B)      { benchmarkScan(b, chatBody(200<<10, false), most1024) }
func BenchmarkScan4KTools(b *testing.B)   { benchmarkScan(b, chatBody(4<<10, true), most1024) }
func BenchmarkScan32KTools(b *testing.B)  { benchmarkScan(b, chatBody(32<<10, true), most1024) }
func BenchmarkScan200KTools(b *testing.B) { benchmarkScan(b, chatBody(200<<10, true), most1024) }
func BenchmarkAutoTurns(b *testing.B)     { benchmarkScan(b, turns(), auto) }
func BenchmarkAllTurns(b *testing.B)      { benchmarkScan(b, turns(), counting) }

// An image is digested, not kept.
func BenchmarkImage64K(b *testing.B) {
	image := strings.Repeat("iVBORw0KGgoAAAAN", 4096)
	benchmarkScan(b, []byte(chatOf(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+image+`"}}]`)), auto)
}

// benchmarkChain measures a scan of all text and its whole chain.
func benchmarkChain(b *testing.B, size int) {
	b.Helper()
	body := chatBody(size, true)
	var s Scanner
	chain := make([]uint64, 0, prefix.MaxChunks)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.Reset(Chat, counting)
		if err := s.Feed(body); err != nil {
			b.Fatal(err)
		}
		r, err := s.Finish()
		if err != nil {
			b.Fatal(err)
		}
		chain = prefix.AppendChain(chain[:0], 1, &r.Text)
	}
}

func BenchmarkChain4K(b *testing.B)   { benchmarkChain(b, 4<<10) }
func BenchmarkChain200K(b *testing.B) { benchmarkChain(b, 200<<10) }
