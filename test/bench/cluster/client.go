package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// askLimit bounds one request; only a failure reaches it.
const askLimit = 20 * time.Second

// client sends requests over connections of its own.
type client struct{ http.Client }

func newClient() *client {
	transport := &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return &client{http.Client{Transport: transport, Timeout: askLimit}}
}

func (c *client) close() { c.CloseIdleConnections() }

// read reads an admin route such as "status" into v.
func (c *client) read(ctx context.Context, r router, route string, v any) error {
	return c.call(ctx, http.MethodGet, r, route, nil, v)
}

// setWeight changes the fleet.
func (c *client) setWeight(ctx context.Context, r router, backend string, weight float64, v any) error {
	return c.call(ctx, http.MethodPut, r, "backends/"+backend+"/weight", fmt.Appendf(nil, `{"weight":%v}`, weight), v)
}

// call sends an admin request and reads its answer into v, unless v is nil.
func (c *client) call(ctx context.Context, method string, r router, route string, body []byte, v any) error {
	_, text, err := c.send(ctx, method, "http://"+r.Admin+"/admin/v1/"+route, body)
	if err != nil {
		return fmt.Errorf("%s, %s %s: %w", r.Name, method, route, err)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// metric is the sum over a metric's series whose labels contain a text.
func (c *client) metric(ctx context.Context, r router, name, label string) (float64, error) {
	_, text, err := c.send(ctx, http.MethodGet, "http://"+r.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(series, name+"{") || !strings.Contains(series, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum += v
	}
	return sum, nil
}

// send sends a request and reads the whole answer; one that is not 2xx is an error.
func (c *client) send(ctx context.Context, method, url string, body []byte) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read to the end, or is of no use
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 2 {
		err = errors.Join(fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(text[:min(len(text), 300)])), err)
	}
	return resp.Header, text, err
}
