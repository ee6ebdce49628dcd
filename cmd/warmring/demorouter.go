package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/node"
)

// demoStop is how long a router of the demo may take to stop before it is killed.
const demoStop = 20 * time.Second

// demoRouter is one router of the demo: a `warmring serve` process.
type demoRouter struct {
	name   string
	errOut io.Writer // its warnings go there
	pid    int

	listening, serving, ended chan struct{} // closed when it says so, and when it is over
	api, admin, peer          string        // addresses, once it listens
}

// config is a router's, as if somebody had written it into a file.
func (d *demo) config(i int, name string, backends []net.Listener) node.Config {
	cfg := node.Default()
	cfg.Router.Name = name
	cfg.API.Listen, cfg.Admin.Listen, cfg.Peer.Listen = d.address(i), d.address(adminPorts+i), d.address(peerPorts+i)
	cfg.Telemetry.Log.Format = "json"
	cfg.Cluster.Name = "demo"
	switch {
	case d.routers >= 5:
		cfg.Cluster.Expect = 5
	case d.routers >= 3:
		cfg.Cluster.Expect = 3
	}
	cfg.Shutdown.Grace = 5 * time.Second
	cfg.Endpoints = []node.EndpointConfig{{Name: demoModel}}
	for i, l := range backends {
		cfg.Backends = append(cfg.Backends, node.BackendConfig{
			ID: backendID(i), URL: "http://" + l.Addr().String(), Endpoint: demoModel, Weight: 1,
		})
	}
	return cfg
}

// run runs the process until ctx ends. That it ends by itself is no error once it has listened: the demo is there to
// show what the others do then.
func (r *demoRouter) run(ctx context.Context, cfg node.Config) error {
	defer close(r.ended)
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, "serve", "--config", "-")
	cmd.Stdin = bytes.NewReader(text)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = demoStop
	ofParent(cmd)
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	// The kernel ends a child with the thread that started it (see ofParent), so this thread must last as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", r.name, err)
	}
	r.pid = cmd.Process.Pid
	last := r.read(log)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case r.up():
		_, err = fmt.Fprintf(r.errOut, "%s (pid %d) has ended: %s\n", r.name, r.pid, cmd.ProcessState)
		return err
	case strings.Contains(last, syscall.EADDRINUSE.Error()):
		return fmt.Errorf("%s: %s; choose other ports with --base-port", r.name, last)
	default:
		return fmt.Errorf("%s: %s (%w)", r.name, last, err)
	}
}

func (r *demoRouter) up() bool {
	select {
	case <-r.listening:
		return true
	default:
		return false
	}
}

// read takes the process' log to its end and returns the last line. Warnings are passed on.
func (r *demoRouter) read(log io.Reader) (last string) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		last = lines.Text()
		var said struct{ Level, Msg, API, Admin, Peer string }
		if json.Unmarshal(lines.Bytes(), &said) != nil {
			continue // the words of a failed start
		}
		switch said.Msg {
		case "listening":
			r.api, r.admin, r.peer = said.API, said.Admin, said.Peer
			close(r.listening)
		case "serving":
			close(r.serving)
		}
		if said.Level == "ERROR" {
			_, _ = fmt.Fprintln(r.errOut, last) // there is nowhere else to say it
		}
	}
	return last
}

// wait returns when the channel is closed; an error means that the router or the demo has ended first.
func (r *demoRouter) wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-r.ended:
		return fmt.Errorf("%s has ended", r.name)
	case <-ctx.Done():
		return ctx.Err()
	}
}
