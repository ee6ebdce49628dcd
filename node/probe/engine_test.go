package probe

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text           string
		requests, work float64
		ok             bool
	}{
		{"", 0, 0, false},
		{"# TYPE vllm:num_requests_running gauge\n", 0, 0, false},
		{"vllm:num_requests_running 2\nvllm:prompt_tokens_total 7\n", 2, 7, true},
		{"vllm:num_requests_running{a=\"}{ 9\"} 2 1395066363000\r\nvllm:num_requests_waiting{} 1e0\nvllm:generation_tokens_total{m=\"a\"} 1.5e3\nvllm:generation_tokens_total{m=\"b\"} 1", 3, 1501, true},
		{"vllm:num_requests_running two\nvllm:prompt_tokens_total\nvllm:prompt_tokens_total{\n{} 1\n 1\n", 0, 0, false},
		{"vllm:num_requests_running 2\n", 2, 0, false},
		{"vllm:num_requests_running 0\nvllm:iteration_tokens_total_count{a=\"b\"} 3\nvllm:iteration_tokens_total_sum 9\n", 0, 3, true},
	} {
		if requests, work, ok := parse(tt.text); requests != tt.requests || work != tt.work || ok != tt.ok {
			t.Errorf("%q: %v %v %v", tt.text, requests, work, ok)
		}
	}
}

func TestEngineNeedsWorkToStand(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var e engine
	looks := []struct {
		requests, tokens string
		stood            int // minutes
	}{{"0", "1", 0}, {"0", "1", 0}, {"2", "1", 0}, {"2", "1", 1}, {"0", "1", 1}, {"1", "1", 1}, {"1", "1", 2}, {"1", "2", 0}, {"1", "2", 1}, {"0", "3", 0}, {"1", "3", 0}}
	for i, look := range looks { // one a minute
		e.observe("vllm:num_requests_running "+look.requests+"\nvllm:prompt_tokens_total "+look.tokens+"\n", now.Add(time.Duration(i)*time.Minute))
		if want := time.Duration(look.stood) * time.Minute; e.stood != want {
			t.Errorf("look %d: stood for %s, want %s", i, e.stood, want)
		}
	}
	if e.observe("not found", now.Add(time.Hour)); e.stood != 0 || e.working {
		t.Error("what is unknown has not stalled")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("vllm:num_requests_running{a=\"}\"} 2 1\nvllm:prompt_tokens_total 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, ok := parse(text); ok && len(text) < len("vllm:num_requests_running 1") {
			t.Errorf("%q", text)
		}
	})
}
