package modelserver

import (
	"fmt"
	"net/http"
	"strconv"
)

// serveMetrics writes vLLM's metrics that a router or an autoscaler reads, in
// the Prometheus text format 0.0.4. As in vLLM's V1 engine, the cache's queries
// and hits are counted in tokens.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	st := s.Stats()
	model := "model_name=" + strconv.Quote(s.cfg.Model)
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"vllm:num_requests_running", "gauge", "Requests in the batch.", float64(st.Running)},
		{"vllm:num_requests_waiting", "gauge", "Requests that wait for the batch.", float64(st.Waiting)},
		{"vllm:kv_cache_usage_perc", "gauge", "Share of KV blocks in use, 1 is all.", float64(st.BlocksUsed) / float64(st.BlocksTotal)},
		{"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", float64(st.PromptTokens)},
		{"vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", float64(st.CachedTokens)},
		{"vllm:prompt_tokens_total", "counter", "Prompt tokens of started requests.", float64(st.PromptTokens)},
		{"vllm:generation_tokens_total", "counter", "Tokens generated.", float64(st.GeneratedTokens)},
	} {
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s{%s} %s\n", // a scraper that left needs no answer
			m.name, m.help, m.name, m.kind, m.name, model, strconv.FormatFloat(m.value, 'g', -1, 64))
	}
	const start = "process_start_time_seconds" // as Prometheus' client for Python has it
	_, _ = fmt.Fprintf(w, "# HELP %s Start time of the process since unix epoch in seconds.\n# TYPE %s gauge\n%s %s\n",
		start, start, start, strconv.FormatFloat(float64(s.started.UnixMilli())/1000, 'g', -1, 64))
	const cache = "vllm:cache_config_info" // as vLLM's: the configuration is in the labels
	_, _ = fmt.Fprintf(w, "# HELP %s Configuration of the KV cache.\n# TYPE %s gauge\n%s{block_size=\"%d\",engine=\"0\",num_gpu_blocks=\"%d\"} 1\n",
		cache, cache, cache, s.cfg.Block, st.BlocksTotal)
	const success = "vllm:request_success_total"
	_, _ = fmt.Fprintf(w, "# HELP %s Finished requests.\n# TYPE %s counter\n", success, success)
	for _, f := range []struct {
		reason string
		n      int
	}{{"stop", st.Served - st.Limited}, {"length", st.Limited}, {"abort", st.Aborted}} {
		_, _ = fmt.Fprintf(w, "%s{%s,finished_reason=%q} %d\n", success, model, f.reason, f.n)
	}
}
