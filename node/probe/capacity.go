package probe

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
)

// The metrics that tell how many tokens a KV cache holds. vLLM (vllm/v1/metrics/loggers.py) has one sample for each data
// parallel engine, always 1, whose labels are the engine's cache configuration. SGLang (sglang/srt metrics_collector.py)
// has one for each scheduler that publishes metrics. llama.cpp's server has none.
const (
	vllmCache   = "vllm:cache_config_info"
	sglangCache = "sglang:max_total_num_tokens"
)

// maxRanks bounds the data parallel ranks of one server that are told apart.
const maxRanks = 1024

// The metrics that tell whether a server was restarted. The first is of Prometheus' client for Python and is there unless
// that works for several processes, as it does under SGLang and under vLLM with several API servers. The second is how the
// counter of prompt tokens ends whose name vLLM, SGLang and llama.cpp begin each in its way.
const (
	startTime     = "process_start_time_seconds"
	promptsSuffix = ":prompt_tokens_total"
)

// Cache is what a backend says of its KV cache. What it does not tell is 0.
type Cache struct {
	Tokens  int     // that it holds
	Started float64 // when the backend was started, in Unix seconds
	Prompts float64 // tokens of all prompts since then
}

// readCache takes metrics in the Prometheus text format 0.0.4. It reads at most maxBody. The error is the reader's, or says
// that a line is longer than 64 KiB.
func readCache(metrics io.Reader) (c Cache, err error) {
	ranks := map[string]int{}
	lines := bufio.NewScanner(io.LimitReader(metrics, maxBody))
	lines.Split(wholeLines)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.Contains(line, []byte(promptsSuffix)) || bytes.HasPrefix(line, []byte(startTime)) {
			c.note(string(line))
		}
		if !bytes.HasPrefix(line, []byte(vllmCache)) && !bytes.HasPrefix(line, []byte(sglangCache)) {
			continue
		}
		rank, tokens := cacheSize(string(line))
		known, seen := ranks[rank]
		if tokens <= 0 || !seen && len(ranks) == maxRanks {
			continue
		}
		if !seen || tokens < known { // the parts of one rank hold the same tokens, so the smallest counts
			ranks[rank] = tokens
		}
	}
	c.Tokens = sum(ranks)
	return c, lines.Err()
}

// note takes in a sample of what tells of a restart. There is a counter for each model and engine.
func (c *Cache) note(line string) {
	name, _, value, ok := sample(line)
	switch {
	case !ok || !(value > 0) || math.IsInf(value, 1):
	case name == startTime:
		c.Started = value
	case strings.HasSuffix(name, promptsSuffix):
		c.Prompts += value
	}
}

// wholeLines is a bufio.SplitFunc for lines without their end. One that does not end was cut: half a number is a number.
func wholeLines(data []byte, _ bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// cacheSize is what one sample says of the cache of one data parallel rank; 0 tokens: nothing.
func cacheSize(line string) (rank string, tokens int) {
	name, labels, value, ok := sample(line)
	switch {
	case !ok:
		return "", 0
	case name == vllmCache:
		// Where layers differ in their attention, blocks times tokens is not what fits, so vLLM's own figure comes first
		// (vllm issue 51163). vLLM before that label has only the product. Both are "None" until the cache is there.
		tokens = count(label(labels, "kv_cache_size_tokens"))
		if tokens == 0 {
			tokens = within(float64(count(label(labels, "block_size"))) * float64(count(label(labels, "num_gpu_blocks"))))
		}
		return label(labels, "engine"), tokens
	case name == sglangCache:
		return label(labels, "dp_rank"), within(value)
	}
	return "", 0 // a longer name
}

// count reads a label's whole number; 0 for anything else.
func count(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// within is v as a number of tokens; 0 for what no cache has.
func within(v float64) int {
	if v >= 1 && v <= math.MaxInt32 {
		return int(v)
	}
	return 0
}

// label is the value of a label in a set with its braces, empty without it. It is as written, with its escapes.
func label(set, name string) string {
	for {
		key, rest, ok := strings.Cut(set, `="`)
		end := closing(rest)
		switch {
		case !ok || end < 0:
			return ""
		case strings.Trim(key, "{, \t") == name:
			return rest[:end]
		}
		set = rest[end+1:]
	}
}

// closing is where the quote is that ends a label's value; -1 without one.
func closing(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++ // what follows is escaped
		case '"':
			return i
		}
	}
	return -1
}

func sum(ranks map[string]int) int {
	total := 0
	for _, tokens := range ranks {
		total += tokens
	}
	return total
}
