package simnet

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// listenOn80 is where the tests' servers are.
func listenOn80(t *testing.T, h *Host) net.Listener {
	t.Helper()
	l, err := h.Listen(t.Context(), "tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		l := listenOn80(t, n.Host("b"))
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 3 {
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			_, _ = io.Copy(w, r.Body)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(l) })
		transport := &http.Transport{DialContext: n.Host("a").Dial}
		client := http.Client{Transport: transport}
		for range 2 {
			body := strings.Repeat("y", 1<<20)
			resp, err := client.Post("http://b/", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			within(t, 3*time.Second, 3100*time.Millisecond, func() {
				if got, err := io.ReadAll(resp.Body); err != nil || string(got) != strings.Repeat("data: x\n\n", 3)+body {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
			_ = resp.Body.Close()
		}
		transport.CloseIdleConnections()
		within(t, 0, time.Second, func() { _ = srv.Shutdown(t.Context()) })
		serving.Wait()
	})
}

func TestHTTPServerSeesItsClientLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		l := listenOn80(t, n.Host("b"))
		left := make(chan time.Time, 1)
		srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			left <- time.Now()
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(l) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		transport := &http.Transport{DialContext: n.Host("a").Dial}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://b/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(req); err == nil {
			t.Error("there was an answer")
		}
		within(t, time.Millisecond, 2*time.Millisecond, func() { <-left })
		_ = srv.Close()
		serving.Wait()
	})
}

// A gRPC stream stalls across a cut and goes on after it; a kill ends it, and a wait-for-ready stream comes back with the
// server. With a connection that failed in one direction first, grpc-go would spin here without time moving.
func TestGRPCAcrossACutAndAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := three()
		serve := func() (*health.Server, func()) {
			l := listenOn80(t, n.Host("b"))
			srv, state := grpc.NewServer(), health.NewServer()
			healthpb.RegisterHealthServer(srv, state)
			var serving sync.WaitGroup
			serving.Go(func() { _ = srv.Serve(l) })
			return state, func() { srv.Stop(); serving.Wait() }
		}
		state, stop := serve()
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			return n.Host("a").Dial(ctx, "tcp", address)
		}
		conn, err := grpc.NewClient("passthrough:///b:80", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		watch := func() healthpb.Health_WatchClient {
			stream, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			if err != nil {
				t.Fatal(err)
			}
			return stream
		}
		expect := func(stream healthpb.Health_WatchClient, want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			if m, err := stream.Recv(); err != nil || m.GetStatus() != want {
				t.Fatalf("%v, %v; want %v", m.GetStatus(), err, want)
			}
		}
		stream := watch()
		expect(stream, healthpb.HealthCheckResponse_SERVING)
		a, b := groups(n)
		cut := n.Split(a, b)
		state.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		time.AfterFunc(time.Minute, cut.Heal)
		within(t, time.Minute, time.Minute+10*time.Millisecond, func() { expect(stream, healthpb.HealthCheckResponse_NOT_SERVING) })

		n.Host("b").Kill()
		stop()
		if _, err := stream.Recv(); err == nil {
			t.Error("the stream outlives the kill")
		}
		var restart sync.WaitGroup
		restart.Go(func() {
			time.Sleep(20 * time.Second)
			n.Host("b").Restart()
			_, stop = serve()
		})
		within(t, 20*time.Second, time.Minute, func() { expect(watch(), healthpb.HealthCheckResponse_SERVING) })
		restart.Wait()
		_ = conn.Close()
		stop()
	})
}
