package probe

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestCapacity(t *testing.T) {
	const others = "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 2.0\n"
	const cut = vllmCache + `{block_size="16",num_gpu_blocks="2"} 1`
	for name, tt := range map[string]struct {
		metrics string
		want    int
	}{
		"empty":                 {"", 0},
		"vLLM":                  {others + `vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="71875"} 1.0` + "\n" + others, 1_150_000},
		"vLLM with its figure":  {`vllm:cache_config_info{block_size="4",kv_cache_size_tokens="463459",num_gpu_blocks="320"} 1.0` + "\n", 463_459},
		"vLLM before its cache": {`vllm:cache_config_info{block_size="16",kv_cache_size_tokens="None",num_gpu_blocks="None"} 1.0` + "\n", 0},
		"vLLM, two engines": {`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="101"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="None"} 1.0
`, 3216},
		"SGLang":              {others + "sglang:max_total_num_tokens{model_name=\"m\",tp_rank=\"0\"} 471258.0\n", 471_258},
		"SGLang, exponent":    {"sglang:max_total_num_tokens 1.150848e+06\n", 1_150_848},
		"SGLang, two by two":  {"sglang:max_total_num_tokens{tp_rank=\"0\",dp_rank=\"0\"} 100\nsglang:max_total_num_tokens{tp_rank=\"1\",dp_rank=\"0\"} 99\nsglang:max_total_num_tokens{tp_rank=\"2\",dp_rank=\"1\"} 100\n", 199},
		"SGLang at its start": {"sglang:max_total_num_tokens{tp_rank=\"0\"} 0.0\n", 0},
		"llama.cpp":           {"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 143\n", 0},
		"escapes and braces":  {vllmCache + `{a="}\",block_size=\"9\"",b="\\",block_size="16", num_gpu_blocks="2"} 1 1395066363000` + "\r\n", 32},
		"what is not a cache": {vllmCache + `{block_size="16",num_gpu_blocks="-2"} 1` + "\n" + vllmCache + `{block_size="65536",num_gpu_blocks="65536"} 1` + "\n" + sglangCache + " NaN\n" + sglangCache + " +Inf\n", 0},
		"a longer name":       {"vllm:cache_config_info_total{block_size=\"16\",num_gpu_blocks=\"2\"} 1\nsglang:max_total_num_tokens_x 3\n", 0},
		"malformed":           {vllmCache + `{block_size="16",num_gpu_blocks="2` + "\n" + vllmCache + `{block_size=16} 1` + "\n" + vllmCache + "\n" + sglangCache + "{ 7\n", 0},
		"cut by the sender":   {cut, 0},
		"past the bound":      {strings.Repeat(others, maxBody/len(others)+1) + cut + "\n", 0},
		"cut by the bound":    {strings.Repeat("\n", maxBody-len(cut)+1) + cut + "000\n", 0},
		"just within":         {strings.Repeat("\n", maxBody-len(cut)-1) + cut + "\n", 32},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readCache(strings.NewReader(tt.metrics))
			if got.Tokens != tt.want || err != nil {
				t.Errorf("%+v, %v; want %d", got, err, tt.want)
			}
		})
	}
}

func TestReadCacheFails(t *testing.T) {
	broken := errors.New("broken")
	if _, err := readCache(io.MultiReader(strings.NewReader(sglangCache+" 7\n"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := readCache(strings.NewReader(strings.Repeat("a", 65<<10))); !errors.Is(err, bufio.ErrTooLong) {
		t.Error(err)
	}
}

func TestReadLife(t *testing.T) {
	for name, tt := range map[string]struct {
		metrics string
		want    Cache
	}{
		"vLLM":              {"process_start_time_seconds 1.79e+09\nvllm:prompt_tokens_total{engine=\"0\"} 7.0\nvllm:prompt_tokens_total{engine=\"1\"} 1e3\n", Cache{Started: 1.79e9, Prompts: 1007}},
		"SGLang":            {sglangCache + " 9\nsglang:prompt_tokens_total{model_name=\"m\"} 3.0\n", Cache{Tokens: 9, Prompts: 3}},
		"llama.cpp":         {"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 143\n", Cache{Prompts: 143}},
		"another name":      {"process_start_time_seconds_x 3\nvllm:prompt_tokens_total_created 1.7e9\nvllm:request_prompt_tokens_sum 4\nx{a=\":prompt_tokens_total\"} 3\n", Cache{}},
		"what is no number": {"process_start_time_seconds +Inf\nvllm:prompt_tokens_total NaN\nvllm:prompt_tokens_total -1\nvllm:prompt_tokens_total\n", Cache{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := readCache(strings.NewReader(tt.metrics)); got != tt.want || err != nil {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func FuzzReadCache(f *testing.F) {
	f.Add(vllmCache + `{block_size="16",engine="0",num_gpu_blocks="71875"} 1` + "\n")
	f.Add("process_start_time_seconds 1\nvllm:prompt_tokens_total{} 7\nllamacpp:prompt_tokens_total 1e300\n")
	f.Add(vllmCache + `{a="\"}",kv_cache_size_tokens="7"} 1` + "\n" + sglangCache + `{dp_rank="0"} 7e3` + "\n")
	f.Fuzz(func(t *testing.T, metrics string) {
		whole, err := readCache(strings.NewReader(metrics))
		piecemeal, again := readCache(iotest.OneByteReader(strings.NewReader(metrics)))
		if whole.Tokens < 0 || whole.Prompts < 0 || whole != piecemeal || (err == nil) != (again == nil) {
			t.Errorf("%+v, %v; in pieces %+v, %v", whole, err, piecemeal, again)
		}
		if whole.Tokens > 0 && !strings.Contains(metrics, vllmCache) && !strings.Contains(metrics, sglangCache) {
			t.Errorf("%+v from nowhere", whole)
		}
	})
}
