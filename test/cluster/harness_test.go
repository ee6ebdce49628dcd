package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// limit bounds every wait; only a failure reaches it.
const limit = 20 * time.Second

func endpoint(policy node.RoutingConfig) node.EndpointConfig {
	return node.EndpointConfig{Name: "demo", Variants: []node.VariantConfig{{Name: "main", Weight: 1, Routing: policy}}}
}

func auto() node.EndpointConfig {
	return endpoint(node.RoutingConfig{Strategy: routing.PrefixAware})
}

// pinned routes by the whole of a short prompt: no hot table moves homes while a test compares them.
func pinned() node.EndpointConfig {
	return endpoint(node.RoutingConfig{Strategy: routing.PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 1024})
}

// fast is a model server that wastes no time.
func fast() modelserver.Config {
	cfg := modelserver.Default()
	cfg.Model, cfg.Speed, cfg.DefaultAnswer = "demo", 100, 8
	return cfg
}

func backendAt(id, url string) node.BackendConfig {
	return node.BackendConfig{ID: id, URL: url, Endpoint: "demo", Weight: 1}
}

// servers runs n model servers.
func servers(t *testing.T, n int) (running []*mstest.Running, backends []node.BackendConfig) {
	t.Helper()
	for i := range n {
		s := mstest.Start(t, fast())
		running = append(running, s)
		backends = append(backends, backendAt(fmt.Sprintf("gpu-%d", i), s.URL))
	}
	return running, backends
}

// client has connections of its own, which end with the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: limit}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func chat(stream bool, messages ...message) string {
	b, err := json.Marshal(map[string]any{"model": "demo", "messages": messages, "stream": stream})
	if err != nil {
		panic(err) // strings and bools always marshal
	}
	return string(b)
}

func ask(system, user string) string {
	return chat(false, message{"system", system}, message{"user", user})
}

// post sends body and reads the whole answer.
func post(ctx context.Context, c *http.Client, url, body string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// backendOf fails the test unless the request succeeds, and says who answered.
func backendOf(t *testing.T, c *http.Client, url, body string) string {
	t.Helper()
	resp, text, err := post(t.Context(), c, url, body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s", err, text)
	}
	return resp.Header.Get("X-Warmring-Backend")
}

// backends asks the admin listener for the view of every server.
func (r *Router) backends(t *testing.T, c *http.Client) []admin.BackendStatus {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Admin+"/admin/v1/backends", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list []admin.BackendStatus
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// instant is a server that answers with a stream as soon as it has read the
// last byte of a request's body.
func instant(t *testing.T, events int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for range events {
		answer.WriteString("9\r\ndata: x\n\n\r\n")
	}
	answer.WriteString("0\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					if _, err := c.Write(answer.Bytes()); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return "http://" + ln.Addr().String()
}
