package modelserver

import (
	"errors"
	"fmt"
	"time"
)

// Config describes one simulated server. Default returns the values of a
// 70-billion-parameter model on eight H100 cards; every field can be a flag.
type Config struct {
	ID       string   // name in the X-Modelserver header and in request ids
	Model    string   // model served; also used when a request names none
	Adapters []string // further names served, each with prompts cached apart

	Cost        Cost
	Speed       float64 // divides every duration of Cost: 10 is ten times as fast
	BatchTokens int     // tokens computed in one step at most (vLLM's max_num_batched_tokens)
	MaxSeqs     int     // requests in one batch at most (vLLM's max_num_seqs)
	MaxWaiting  int     // requests that wait for the batch at most; one more gets a 503
	KVTokens    int     // capacity of the KV cache in tokens
	Block       int     // tokens in one cache block
	MaxContext  int     // prompt plus answer in tokens at most

	BytesPerToken int   // bytes of text that make a token, 1 to 64
	DefaultAnswer int   // tokens of an answer when the request sets no limit
	Dimensions    int   // length of an embedding when the request sets none
	MaxBody       int64 // request body in bytes at most; one more gets a 413

	Fault Fault // the fault in force at the start
}

// Cost holds the constants of the step-time model: an engine step takes Step,
// plus Decode for each decoding sequence, plus KVRead for each 1,000 tokens of
// context those sequences read, plus Prefill x (1 + context/AttentionScale)
// for each prompt token.
type Cost struct {
	Step           time.Duration // reading the weights once
	Decode         time.Duration // one decoding sequence
	KVRead         time.Duration // 1,000 KV tokens read by decoding sequences
	Prefill        time.Duration // one prompt token at the beginning of a context
	AttentionScale int           // context in tokens at which Prefill has doubled
	Fixed          time.Duration // HTTP and tokenizer, once a request
}

// Default returns a valid configuration.
func Default() Config {
	return Config{
		ID:    "modelserver",
		Model: "demo",
		Cost: Cost{
			Step:           11 * time.Millisecond,
			Decode:         30 * time.Microsecond,
			KVRead:         17500 * time.Nanosecond,
			Prefill:        30 * time.Microsecond,
			AttentionScale: 36_000,
			Fixed:          20 * time.Millisecond,
		},
		Speed:         1,
		BatchTokens:   8192,
		MaxSeqs:       256,
		MaxWaiting:    16_384,
		KVTokens:      1_150_000,
		Block:         16,
		MaxContext:    131_072,
		BytesPerToken: 4,
		DefaultAnswer: 64,
		Dimensions:    64,
		MaxBody:       64 << 20,
	}
}

// Validate returns nil or all errors of c joined, each beginning with the name
// of its field.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
		}
	}
	check(c.ID != "", "ID", "is empty")
	check(c.Model != "", "Model", "is empty")
	for i, name := range c.Adapters {
		check(name != "", fmt.Sprintf("Adapters[%d]", i), "is empty")
	}
	check(c.Speed > 0, "Speed", "is %v, must be over 0", c.Speed)
	check(c.BatchTokens >= c.MaxSeqs, "BatchTokens", "is %d, must be at least MaxSeqs (%d)", c.BatchTokens, c.MaxSeqs)
	check(c.MaxSeqs >= 1, "MaxSeqs", "is %d, must be at least 1", c.MaxSeqs)
	check(c.MaxWaiting >= 1, "MaxWaiting", "is %d, must be at least 1", c.MaxWaiting)
	check(c.Block >= 1, "Block", "is %d, must be at least 1", c.Block)
	check(c.MaxContext >= 2, "MaxContext", "is %d, must be at least 2", c.MaxContext)
	if c.Block >= 1 {
		check(blocksFor(c.MaxContext, c.Block) <= c.KVTokens/c.Block, "KVTokens",
			"is %d, must hold one context of %d tokens in whole blocks", c.KVTokens, c.MaxContext)
	}
	check(c.BytesPerToken >= 1 && c.BytesPerToken <= 64, "BytesPerToken", "is %d, must be 1 to 64", c.BytesPerToken)
	check(c.DefaultAnswer >= 1, "DefaultAnswer", "is %d, must be at least 1", c.DefaultAnswer)
	check(c.Dimensions >= 1 && c.Dimensions <= maxDimensions, "Dimensions", "is %d, must be 1 to %d", c.Dimensions, maxDimensions)
	check(c.MaxBody >= 1, "MaxBody", "is %d, must be at least 1", c.MaxBody)
	if err := c.Cost.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Fault.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Fault.%w", err))
	}
	return errors.Join(errs...)
}

// validate reports each field of c that cannot be.
func (c Cost) validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"Cost.Decode", c.Decode},
		{"Cost.KVRead", c.KVRead},
		{"Cost.Prefill", c.Prefill},
		{"Cost.Fixed", c.Fixed},
	} {
		if f.d < 0 {
			errs = append(errs, fmt.Errorf("%s: is %v, must not be negative", f.name, f.d))
		}
	}
	if c.Step <= 0 { // a step without duration would let the engine spin
		errs = append(errs, fmt.Errorf("Cost.Step: is %v, must be over 0", c.Step))
	}
	if c.AttentionScale < 1 {
		errs = append(errs, fmt.Errorf("Cost.AttentionScale: is %d, must be at least 1", c.AttentionScale))
	}
	return errors.Join(errs...)
}

// prefill returns the time to compute the tokens from..to of one prompt.
func (c Cost) prefill(from, to int) time.Duration {
	context := float64(from+to) / 2
	return time.Duration(float64(to-from) * float64(c.Prefill) * (1 + context/float64(c.AttentionScale)))
}

// decode returns the time to make one token behind a context of that length.
func (c Cost) decode(context int) time.Duration {
	return c.Decode + c.KVRead*time.Duration(context)/1000
}

// blocksFor returns how many blocks hold that many tokens.
func blocksFor(tokens, block int) int { return (tokens + block - 1) / block }
