package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	maxAnswer     = 64 << 20 // bytes that are read from a router
	answerTimeout = 30 * time.Second
)

// client asks a router's admin listener.
type client struct {
	admin     string
	tokenFile string
	json      bool
	header    http.Header // is sent besides; may be nil
}

// addTo gives cmd the flags of every command that asks a router.
func (c *client) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.admin, "admin", "http://127.0.0.1:9080", "`URL` of a router's admin listener")
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "`file` with the admin token; else WARMRING_ADMIN_TOKEN holds it")
	cmd.Flags().BoolVar(&c.json, "json", false, "print the router's answer as JSON")
}

// show asks for path and prints the answer: as it is with --json, else as print shows the decoded answer.
func show[T any](cmd *cobra.Command, c *client, path string, print func(out io.Writer, answer T) error) error {
	body, err := c.do(cmd.Context(), http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return render(cmd.OutOrStdout(), c.json, body, print)
}

func render[T any](out io.Writer, asJSON bool, body []byte, print func(out io.Writer, answer T) error) error {
	if asJSON {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, bytes.TrimSpace(body), "", "  "); err != nil {
			return fmt.Errorf("the router's answer: %w", err)
		}
		pretty.WriteByte('\n')
		_, err := pretty.WriteTo(out)
		return err
	}
	var answer T
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("the router's answer: %w", err)
	}
	return print(out, answer)
}

// do returns the body of a good answer.
func (c *client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	base, err := url.Parse(c.admin)
	if err != nil || base.Host == "" {
		return nil, usagef("--admin %q: must be a URL such as http://127.0.0.1:9080", c.admin)
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, method, strings.TrimRight(c.admin, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to the end
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the router's answer broke off: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(resp, answer)
	}
	return answer, nil
}

func (c *client) token() (string, error) {
	if c.tokenFile == "" {
		return os.Getenv("WARMRING_ADMIN_TOKEN"), nil
	}
	text, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// unanswered is why a request that began under ctx got no answer, and what to do.
func (c *client) unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("asking the router at %s: %w", c.admin, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the router at %s gave no answer within %s; --admin names another", c.admin, answerTimeout)
	}
	return fmt.Errorf("no router answers at %s: %w; is one running there? --admin names another", c.admin, errors.Unwrap(err))
}

// refusal is the router's own words, where there are any, and what to do.
func (c *client) refusal(resp *http.Response, body []byte) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Param   string `json:"param"`
		} `json:"error"`
	}
	words, advice := string(bytes.TrimSpace(body[:min(len(body), 500)])), ""
	own := json.Unmarshal(body, &said) == nil && said.Error.Message != ""
	if own {
		words = said.Error.Message
		if param := said.Error.Param; resp.StatusCode != http.StatusNotFound && !strings.Contains(words, param) {
			words = param + ": " + words
		}
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		advice = "; --token-file names the file with the admin token, or WARMRING_ADMIN_TOKEN holds it"
	case resp.StatusCode == http.StatusNotFound && (!own || strings.HasPrefix(words, "no such route")):
		advice = "; --admin must be the admin listener of a router, not its API"
	}
	return fmt.Errorf("the router at %s answered %s: %s%s", c.admin, resp.Status, words, advice)
}
