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

// benchmarkScan measures a scan for the key of n characters.
func benchmarkScan(b *testing.B, size int, tools bool) {
	b.Helper()
	const characters = 1024
	body := chatBody(size, tools)
	var s Scanner
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.Reset(Chat, 4*characters)
		if err := s.Feed(body); err != nil {
			b.Fatal(err)
		}
		r, err := s.Finish()
		if err != nil {
			b.Fatal(err)
		}
		prefix.Fixed(1, &r.Text, characters)
	}
}

func BenchmarkScan4K(b *testing.B)        { benchmarkScan(b, 4<<10, false) }
func BenchmarkScan32K(b *testing.B)       { benchmarkScan(b, 32<<10, false) }
func BenchmarkScan200K(b *testing.B)      { benchmarkScan(b, 200<<10, false) }
func BenchmarkScan4KTools(b *testing.B)   { benchmarkScan(b, 4<<10, true) }
func BenchmarkScan32KTools(b *testing.B)  { benchmarkScan(b, 32<<10, true) }
func BenchmarkScan200KTools(b *testing.B) { benchmarkScan(b, 200<<10, true) }

// benchmarkChain measures a scan of all text and its whole chain.
func benchmarkChain(b *testing.B, size int) {
	b.Helper()
	body := chatBody(size, true)
	var s Scanner
	chain := make([]uint64, 0, prefix.MaxChunks)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		s.Reset(Chat, prefix.MaxText)
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
