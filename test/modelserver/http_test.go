package modelserver_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// fast is a server a hundred times as fast as the default.
func fast() modelserver.Config {
	cfg := modelserver.Default()
	cfg.Speed = 100
	return cfg
}

// newClient returns a client whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// do sends a request and returns the answer with its whole body; header is a
// list of names and values.
func do(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := newClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

func TestStreamTranscript(t *testing.T) {
	s := mstest.Start(t, fast())
	resp, body := do(t, "POST", s.URL+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
		"X-Request-Id", "r1")
	body = regexp.MustCompile(`"created":\d+`).ReplaceAllString(body, `"created":0`)
	head := `data: {"id":"chatcmpl-r1","object":"chat.completion.chunk","created":0,"model":"demo","choices":[`
	want := head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{"content":"okiz"},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{"content":" kov"},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}` + "\n\n" +
		head + `],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":0}}}` + "\n\n" +
		"data: [DONE]\n\n"
	if diff := cmp.Diff(want, body); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "X-Modelserver": "modelserver", "X-Request-Id": "r1",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	cfg := fast()
	cfg.MaxContext, cfg.MaxBody = 100, 4000
	s := mstest.Start(t, cfg)
	for _, tc := range []struct {
		path, body string
		status     int
		param      string
	}{
		{"/v1/chat/completions", `{"messages":`, 400, ""},
		{"/v1/chat/completions", `[]`, 400, ""},
		{"/v1/chat/completions", ``, 400, ""},
		{"/v1/chat/completions", `{"messages":[]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":"hi"}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":7}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 400) + `"}]}`, 400, ""},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":0}`, 400, "max_tokens"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":99}`, 400, "max_tokens"},
		{"/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"x"}]}`, 404, "model"},
		{"/v1/chat/completions", strings.Repeat(" ", 4001), 413, ""},
		{"/v1/completions", `{}`, 400, "prompt"},
		{"/v1/completions", `{"prompt":""}`, 400, ""},
		{"/v1/completions", `{"prompt":["a","b"]}`, 400, "prompt"},
		{"/v1/completions", `{"prompt":[-1]}`, 400, "prompt"},
		{"/v1/completions", `{"prompt":null}`, 400, "prompt"},
		{"/v1/responses", `{"input":[]}`, 400, "input"},
		{"/v1/responses", `{"input":"x","previous_response_id":"resp_1"}`, 404, "previous_response_id"},
		{"/v1/embeddings", `{"input":[[1],"x",{}]}`, 400, "input"},
		{"/v1/embeddings", `{"input":"x","encoding_format":"hex"}`, 400, "encoding_format"},
		{"/v1/embeddings", `{"input":"x","dimensions":0}`, 400, "dimensions"},
		{"/invocations", `not json`, 400, ""},
		{"/invocations", `{"inputs":"x"}`, 400, ""},
		{"/tokenize", `{"prompt":7}`, 400, "prompt"},
		{"/control/fault", `{"kind":"gremlin"}`, 400, ""},
		{"/control/fault", `{"kind":"status","status":200}`, 400, ""},
	} {
		resp, body := do(t, "POST", s.URL+tc.path, tc.body)
		var got struct {
			Error struct {
				Message, Type string
				Param         *string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s %.60s: %v in %q", tc.path, tc.body, err, body)
			continue
		}
		e := got.Error
		param := ""
		if e.Param != nil {
			param = *e.Param
		}
		if resp.StatusCode != tc.status || e.Code != tc.status || param != tc.param || e.Message == "" || e.Type == "" {
			t.Errorf("%s %.60s: %d %s, want %d and param %q", tc.path, tc.body, resp.StatusCode, body, tc.status, tc.param)
		}
	}
	if st := s.Server.Stats(); st.Received != 0 || st.Requests != 24 {
		t.Errorf("bad requests reached the engine, or were not counted: %+v", st)
	}
}

func TestInvocations(t *testing.T) {
	cfg := fast()
	cfg.Adapters = []string{"lora"}
	s := mstest.Start(t, cfg)
	for _, tc := range []struct{ name, body, want string }{
		{"chat", `{"messages":[{"role":"user","content":"x"}]}`, `"object":"chat.completion","created"`},
		{"stream", `{"messages":[{"role":"user","content":"x"}],"stream":true}`, `"object":"chat.completion.chunk"`},
		{"completion", `{"prompt":"x"}`, `"object":"text_completion"`},
		{"embedding", `{"input":"x"}`, `"object":"embedding"`},
	} {
		resp, body := do(t, "POST", s.URL+"/invocations", tc.body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s", tc.name, resp.StatusCode, body)
		}
		if sse := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"); sse != (tc.name == "stream") {
			t.Errorf("%s: Content-Type %q", tc.name, resp.Header.Get("Content-Type"))
		}
	}
	_, body := do(t, "POST", s.URL+"/invocations", `{"model":"demo","prompt":"x"}`, "X-Amzn-SageMaker-Adapter-Identifier", "lora")
	if !strings.Contains(body, `"model":"lora"`) {
		t.Errorf("the adapter header was not heeded: %s", body)
	}
}

func TestAdaptersAndSaltsHaveCachesOfTheirOwn(t *testing.T) {
	cfg := fast()
	cfg.Adapters = []string{"lora"}
	s := mstest.Start(t, cfg)
	text := strings.Repeat("word", 100)
	for _, tc := range []struct {
		more   string
		cached int
	}{
		{`"model":"demo"`, 0},
		{`"model":""`, 96},
		{`"model":"lora"`, 0},
		{`"model":"lora"`, 96},
		{`"cache_salt":"tenant"`, 0},
		{`"cache_salt":"tenant"`, 96},
	} {
		before := s.Server.Stats().CachedTokens
		do(t, "POST", s.URL+"/v1/completions", `{"prompt":"`+text+`",`+tc.more+`}`)
		if got := s.Server.Stats().CachedTokens - before; got != tc.cached {
			t.Errorf("%s: %d tokens cached, want %d", tc.more, got, tc.cached)
		}
	}
}

func TestEmbeddingFormats(t *testing.T) {
	s := mstest.Start(t, fast())
	var floats, packed struct {
		Data []struct{ Embedding json.RawMessage }
	}
	for format, v := range map[string]any{"float": &floats, "base64": &packed} {
		_, body := do(t, "POST", s.URL+"/v1/embeddings", `{"input":[[1,2,3]],"encoding_format":"`+format+`","dimensions":5}`)
		if err := json.Unmarshal([]byte(body), v); err != nil {
			t.Fatal(err)
		}
	}
	var list []float32
	if err := json.Unmarshal(floats.Data[0].Embedding, &list); err != nil || len(list) != 5 {
		t.Errorf("float: %s, %v", floats.Data[0].Embedding, err)
	}
	var text string
	if err := json.Unmarshal(packed.Data[0].Embedding, &text); err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(text); err != nil || len(raw) != 20 {
		t.Errorf("base64: %d bytes, %v", len(raw), err)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	s := mstest.Start(t, fast())
	do(t, "POST", s.URL+"/v1/completions", `{"prompt":"`+strings.Repeat("word", 100)+`","max_tokens":5}`)
	do(t, "POST", s.URL+"/v1/completions", `{"prompt":"`+strings.Repeat("word", 100)+`"}`)
	for _, probe := range []string{"GET /health", "GET /ping", "POST /ping"} {
		method, path, _ := strings.Cut(probe, " ")
		if resp, body := do(t, method, s.URL+path, ""); resp.StatusCode != http.StatusOK || body != "" {
			t.Errorf("%s: %d %q", probe, resp.StatusCode, body)
		}
	}
	_, body := do(t, "GET", s.URL+"/metrics", "")
	for _, want := range []string{
		`vllm:num_requests_running{model_name="demo"} 0`,
		`vllm:num_requests_waiting{model_name="demo"} 0`,
		`vllm:kv_cache_usage_perc{model_name="demo"} 0`,
		`vllm:prefix_cache_queries_total{model_name="demo"} 200`,
		`vllm:prefix_cache_hits_total{model_name="demo"} 96`,
		`vllm:prompt_tokens_total{model_name="demo"} 200`,
		`vllm:generation_tokens_total{model_name="demo"} 69`,
		`vllm:request_success_total{model_name="demo",finished_reason="stop"} 1`,
		`vllm:request_success_total{model_name="demo",finished_reason="length"} 1`,
		"# TYPE vllm:prefix_cache_hits_total counter",
		"# TYPE process_start_time_seconds gauge",
		`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="71875"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, body)
		}
	}
	if _, body := do(t, "GET", s.URL+"/control/stats", ""); !strings.Contains(body, `"served":2`) {
		t.Errorf("stats: %s", body)
	}
	if _, body := do(t, "POST", s.URL+"/tokenize", `{"messages":[{"role":"user","content":"12345"}]}`); !strings.Contains(body, `"count":5,`) {
		t.Errorf("tokenize: %s", body) // two marks, two pieces of text, the answer's mark
	}
}

func TestValidateNamesEveryField(t *testing.T) {
	cfg := modelserver.Config{Adapters: []string{""}, Fault: modelserver.Fault{Kind: modelserver.Slow}}
	cfg.Cost.Decode = -1
	_, err := modelserver.New(cfg)
	if err == nil {
		t.Fatal("an empty configuration is valid")
	}
	for _, field := range []string{
		"ID", "Model", "Adapters[0]", "Speed", "MaxSeqs", "MaxWaiting", "Block", "MaxContext", "BytesPerToken",
		"DefaultAnswer", "Dimensions", "MaxBody", "Cost.Decode", "Cost.Step", "Cost.AttentionScale", "Fault.Factor",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+field+": ") {
			t.Errorf("%s is not reported in\n%v", field, err)
		}
	}
}
