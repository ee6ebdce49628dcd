package probe_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/node/probe"
	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// run probes one server on a real socket, and returns the verdicts as they come.
func run(t *testing.T, cfg probe.Config, url string) <-chan loads.Probe {
	t.Helper()
	verdicts := make(chan loads.Probe, 1000)
	var dialer net.Dialer
	p := probe.New(cfg, probe.Deps{
		Dial: dialer.DialContext, Log: slog.New(slog.DiscardHandler),
		OnVerdict: func(_ loads.Key, v loads.Probe) { verdicts <- v },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	p.Watch([]probe.Target{{ID: "a", Incarnation: 1, URL: url, Models: []string{"demo"}}})
	return verdicts
}

// wait returns when the verdict is want.
func wait(t *testing.T, verdicts <-chan loads.Probe, want loads.Probe) {
	t.Helper()
	for late := time.After(20 * time.Second); ; {
		select {
		case v := <-verdicts:
			if v == want {
				return
			}
		case <-late:
			t.Fatalf("not %d within 20 s", want)
		}
	}
}

func TestModelServerFaults(t *testing.T) {
	cfg := probe.Default()
	cfg.Interval, cfg.Timeout, cfg.Stall = 250*time.Millisecond, 250*time.Millisecond, 600*time.Millisecond
	for name, tt := range map[string]struct {
		fault modelserver.Fault
		want  loads.Probe
	}{
		"refuse":              {fault: modelserver.Fault{Kind: modelserver.Refuse}, want: loads.Dead},
		"hang":                {fault: modelserver.Fault{Kind: modelserver.Hang, Probes: true}, want: loads.Dead},
		"500":                 {fault: modelserver.Fault{Kind: modelserver.Status, Status: 500, Probes: true}, want: loads.Dead},
		"503 without a delay": {fault: modelserver.Fault{Kind: modelserver.Status, Status: 503, Probes: true}, want: loads.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mstest.Start(t, modelserver.Default())
			verdicts := run(t, cfg, s.URL)
			wait(t, verdicts, loads.Ready)
			if err := s.Server.SetFault(tt.fault); err != nil {
				t.Fatal(err)
			}
			wait(t, verdicts, tt.want)
			if err := s.Server.SetFault(modelserver.Fault{}); err != nil {
				t.Fatal(err)
			}
			wait(t, verdicts, loads.Ready)
		})
	}
}

// A wedged engine still answers health with 200; with a request in it, it is found out.
func TestModelServerWedged(t *testing.T) {
	cfg := probe.Default()
	cfg.Interval, cfg.Stall = 250*time.Millisecond, 600*time.Millisecond
	server := modelserver.Default()
	server.Fault.Kind = modelserver.Wedged
	s := mstest.Start(t, server)
	verdicts := run(t, cfg, s.URL)
	wait(t, verdicts, loads.Ready)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"Are you there?"}],"max_tokens":500}`))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		if resp, err := (&http.Client{Transport: transport}).Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	wait(t, verdicts, loads.Dead)
	if err := s.Server.SetFault(modelserver.Fault{}); err != nil {
		t.Fatal(err)
	}
	wait(t, verdicts, loads.Ready)
	cancel()
	<-ended
}

func TestAnotherModel(t *testing.T) {
	server := modelserver.Default()
	server.Model = "other"
	s := mstest.Start(t, server)
	verdicts := run(t, probe.Default(), s.URL)
	select {
	case v := <-verdicts:
		t.Errorf("the verdict is %d", v)
	case <-time.After(500 * time.Millisecond):
	}
}

// The model server's own metrics tell its capacity.
func TestModelServerCapacity(t *testing.T) {
	s := mstest.Start(t, modelserver.Default())
	var dialer net.Dialer
	told := make(chan probe.Cache, 1)
	p := probe.New(probe.Default(), probe.Deps{
		Dial: dialer.DialContext, Log: slog.New(slog.DiscardHandler), OnCache: func(_ loads.Key, c probe.Cache) { told <- c },
	})
	p.SetBackends([]probe.Target{{ID: "a", Incarnation: 1, URL: s.URL}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	select {
	case got := <-told:
		if want := modelserver.Default().KVTokens; got.Tokens != want || time.Since(time.Unix(int64(got.Started), 0)) > time.Minute {
			t.Errorf("%+v, want %d tokens and a start within the last minute", got, want)
		}
	case <-ctx.Done():
		t.Error("told nothing within 20 s")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
