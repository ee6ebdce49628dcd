package node

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/sim/simnet"
)

// worldOf is all that a node on h knows.
func worldOf(h *simnet.Host) World {
	return World{
		Listen: h.Listen, Dial: h.Dial, Packets: h.Packets, Lookup: h.Lookup, LookupSRV: h.LookupSRV, Now: h.Now, Random: h.Random(),
	}
}

// A node in a bubble: no real socket, no real time, and at the end no goroutine, or the bubble would not end.
func TestANodeTakesAllFromItsWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Default())
		host, gpu := network.Host("router"), network.Host("gpu")
		model, err := modelserver.New(modelserver.Default())
		if err != nil {
			t.Fatal(err)
		}
		modelListener, err := gpu.Listen(t.Context(), "tcp", gpu.IP().String()+":80")
		if err != nil {
			t.Fatal(err)
		}
		cfg := testConfig("http://" + modelListener.Addr().String())
		cfg.Shutdown.DrainDelay = time.Minute // costs next to nothing here
		n, err := New(cfg, worldOf(host), Options{})
		if err != nil {
			t.Fatal(err)
		}
		modelCtx, stopModel := context.WithCancel(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- model.Run(modelCtx, modelListener) }()
		go func() { done <- n.Run(ctx) }()
		<-n.Serving()

		client := http.Client{Transport: &http.Transport{DialContext: host.Dial}}
		ask := func(method, path, body string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.APIAddr()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(text)
		}
		if code, text := ask("POST", "/v1/completions", `{"model":"demo","prompt":"hello","max_tokens":8}`); code != http.StatusOK {
			t.Errorf("status %d: %s", code, text)
		}
		stop()
		time.Sleep(time.Second)
		if code, _ := ask("GET", "/readyz", ""); code != http.StatusServiceUnavailable {
			t.Errorf("readyz answers %d while leaving", code)
		}
		began := time.Now()
		client.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 50*time.Second || took > 80*time.Second {
			t.Errorf("the end took %s", took)
		}
		stopModel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(15 * time.Second) // what libraries leave behind for a moment
	})
}

// Two routers may have one name by mistake, and a router and the killed process before it for a moment.
func TestARouterWarnsOfItsNamesake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Default())
		var log logBuffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			host := network.Host(name)
			cfg := testConfig("http://10.9.9.9:80")
			cfg.Peer.Listen, cfg.Peer.Insecure = host.IP().String()+":7400", true
			cfg.Cluster.Join = []string{network.Host("a").IP().String() + ":7400"}
			cfg.Shutdown.DrainDelay = 0
			n, err := New(cfg, worldOf(host), Options{LogOutput: &log})
			if err != nil {
				t.Fatal(err)
			}
			go func() { ended <- n.Run(ctx) }()
		}
		const warning = "another router has the same router.name"
		time.Sleep(10 * time.Second)
		if strings.Contains(log.String(), warning) {
			t.Error("it warns before a process that was killed is forgotten")
		}
		time.Sleep(5 * time.Minute)
		if n := strings.Count(log.String(), warning); n != 2 {
			t.Errorf("%d warnings, want one of each:\n%s", n, log.String())
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
