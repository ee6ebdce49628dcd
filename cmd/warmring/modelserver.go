package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/test/modelserver"
)

func newModelServer() *cobra.Command {
	cfg := modelserver.Default()
	var host string
	var port int
	cmd := &cobra.Command{
		Use:   "modelserver",
		Short: "Run one simulated model server",
		Long:  "Run one simulated vLLM server: a prefix cache, continuous batching, the HTTP API and the metrics, but no model.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("id") {
				cfg.ID = "modelserver-" + strconv.Itoa(port)
			}
			s, err := modelserver.New(cfg)
			if err != nil {
				return usageError{err}
			}
			var listen net.ListenConfig
			l, err := listen.Listen(cmd.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("--port %d: %w", port, err)
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "model %s on http://%s\n", cfg.Model, l.Addr()); err != nil {
				return errors.Join(err, l.Close())
			}
			return s.Run(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&port, "port", 9001, "port to listen on; 0 lets the kernel choose")
	f.StringVar(&cfg.ID, "id", "", "name of this server (modelserver-PORT)")
	f.StringVar(&cfg.Model, "model", cfg.Model, "model that it serves")
	f.StringSliceVar(&cfg.Adapters, "adapters", nil, "further names that it serves")
	f.Float64Var(&cfg.Speed, "speed", cfg.Speed, "how many times faster than a real model it is")
	f.IntVar(&cfg.KVTokens, "kv-tokens", cfg.KVTokens, "capacity of the KV cache in tokens")
	f.IntVar(&cfg.Block, "block", cfg.Block, "tokens in one cache block")
	f.IntVar(&cfg.BatchTokens, "batch-tokens", cfg.BatchTokens, "tokens computed in one step at most")
	f.IntVar(&cfg.MaxSeqs, "max-seqs", cfg.MaxSeqs, "requests in one batch at most")
	f.IntVar(&cfg.MaxWaiting, "max-waiting", cfg.MaxWaiting, "requests that wait for the batch at most")
	f.IntVar(&cfg.MaxContext, "max-context", cfg.MaxContext, "prompt plus answer in tokens at most")
	f.IntVar(&cfg.BytesPerToken, "bytes-per-token", cfg.BytesPerToken, "bytes of text that make a token, 1 to 64")
	f.IntVar(&cfg.DefaultAnswer, "default-answer", cfg.DefaultAnswer, "tokens of an answer when the request sets no limit")
	f.DurationVar(&cfg.Cost.Step, "cost.step", cfg.Cost.Step, "an engine step")
	f.DurationVar(&cfg.Cost.Decode, "cost.decode", cfg.Cost.Decode, "added to a step by one decoding request")
	f.DurationVar(&cfg.Cost.KVRead, "cost.kv-read", cfg.Cost.KVRead, "added to a step by 1,000 tokens of context of decoding requests")
	f.DurationVar(&cfg.Cost.Prefill, "cost.prefill", cfg.Cost.Prefill, "one prompt token at the beginning of a context")
	f.DurationVar(&cfg.Cost.Fixed, "cost.fixed", cfg.Cost.Fixed, "HTTP and tokenizer, once a request")
	return cmd
}
