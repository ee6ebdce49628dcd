package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/warmring/warmring/api/admin"
)

func newExplain() *cobra.Command {
	var c client
	var file, endpoint, kind string
	var headers []string
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show how a router would route a request, without sending it",
		Example: `  warmring explain -f request.json
  echo '{"model": "demo", "prompt": "Hello"}' | warmring explain -f - --kind completions
  warmring explain -f request.json -H 'X-Amzn-SageMaker-Target-Variant: green'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := readBody(cmd, file)
			if err != nil {
				return err
			}
			if c.header, err = parseHeaders(headers); err != nil {
				return err
			}
			query := url.Values{"endpoint": {endpoint}, "kind": {kind}}
			answer, err := c.do(cmd.Context(), http.MethodPost, "/admin/v1/explain?"+query.Encode(), body)
			if err != nil {
				return err
			}
			return render(cmd.OutOrStdout(), c.json, answer, printExplanation)
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` with the request's body; - is standard input")
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "endpoint, where the body's model does not name it")
	cmd.Flags().StringVar(&kind, "kind", "chat", "chat, completions, responses, embeddings, rerank, score, messages or invocations")
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "`NAME: VALUE` of a header of the request, for those that say the tenant or the variant; may be given again")
	return cmd
}

func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(strings.TrimSpace(value)) {
			return nil, usagef("--header %q: must be a header such as 'X-Amzn-SageMaker-Target-Variant: green'", line)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

func readBody(cmd *cobra.Command, file string) ([]byte, error) {
	switch file {
	case "":
		return nil, usagef("-f is needed: a file with the request's body")
	case "-":
		return io.ReadAll(cmd.InOrStdin())
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	return body, nil
}

func printExplanation(out io.Writer, e admin.Explanation) error {
	var t table
	t.row("epoch", e.Epoch)
	t.row("endpoint", e.Endpoint+", variant "+e.Variant)
	t.row("strategy", e.Strategy)
	if e.Adapter != "" {
		t.row("adapter", e.Adapter)
	}
	if e.Tenant != "" {
		t.row("tenant", e.Tenant)
	}
	t.row("key", fmt.Sprintf("%s, from %d bytes of text in %d chunks", e.Key, e.TextBytes, e.Depth))
	t.row("prompt", fmt.Sprintf("about %d tokens", e.PromptTokens))
	for _, l := range e.HotLevels {
		t.row("hot", fmt.Sprintf("%s, %d chunks, on %d backends", l.First, l.Chunks, l.Servers))
	}
	t.row("home", e.Home)
	t.row() // columns of what follows are aligned apart
	t.row("RANK", "BACKEND", "IN FLIGHT", "PEERS", "PREFILL", "HAVE", "WORK", "PACE", "LATE", "COST", "FILLED", "ELIGIBLE")
	for _, c := range e.Candidates {
		eligible := "yes"
		if !c.Eligible {
			eligible = "no: " + c.Reason
		} else if c.Beyond {
			eligible = "not for a first touch"
		}
		t.row(c.Rank, c.ID, c.InFlight, c.PeerInFlight, c.Prefill, c.Have, fmt.Sprintf("%.0f", c.Work), fmt.Sprintf("%.2f", c.Pace), fmt.Sprintf("%.1f", c.Late), fmt.Sprintf("%.0f", c.Cost), fmt.Sprintf("%.0f %%", 100*c.Filled), eligible)
	}
	return t.write(out)
}
