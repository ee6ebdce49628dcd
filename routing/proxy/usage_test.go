package proxy

import (
	"strings"
	"testing"
)

func BenchmarkUsage(b *testing.B) {
	for name, answer := range map[string]string{
		"document": `{"id":"chatcmpl-bench","object":"chat.completion","created":1764374400,"model":"bench","choices":[{"index":0,` +
			`"finish_reason":"stop","message":{"role":"assistant","content":"` + strings.Repeat("some words of an answer, ", 40) +
			`"}}],"usage":{"prompt_tokens":1024,"completion_tokens":160,"total_tokens":1184,"prompt_tokens_details":{"cached_tokens":960}}}`,
		"events": strings.Repeat(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764374400,"model":"bench",`+
			`"choices":[{"index":0,"delta":{"content":"words"}}],"usage":null}`+"\n\n", 20) + "data: [DONE]\n\n",
	} {
		b.Run(name, func(b *testing.B) {
			var t tail
			t.write([]byte(answer))
			for b.Loop() {
				_ = t.usage()
			}
		})
	}
}
