package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/modelserver"
)

// demoModel is the demo's endpoint and the model that its servers claim to have.
const demoModel = "demo"

// Distances of the demo's other ports from --base-port.
const (
	adminPorts   = 1000
	backendPorts = 2000
)

type demo struct {
	routers, backends, basePort int
	speed                       float64
	load                        bool
}

func newDemo() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a router and simulated model servers in this process",
		Long: `Run a router and simulated model servers on 127.0.0.1 until Ctrl-C.

The router listens on the base port, its admin API on base port + 1000, the model servers from base port + 2000 on.
Endpoint and model are both called demo.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.validate(); err != nil {
				return err
			}
			return d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.routers, "routers", 1, "routers; several come with the cluster, so only 1 works")
	f.IntVar(&d.backends, "backends", 7, "simulated model servers, 1 to 500")
	f.IntVar(&d.basePort, "base-port", 8080, "port of the router; 0 lets the kernel choose all ports")
	f.Float64Var(&d.speed, "speed", 1, "how many times faster than a real model the servers are")
	f.BoolVar(&d.load, "load", false, "send a demonstration load and show how it was answered")
	return cmd
}

func (d *demo) validate() error {
	switch {
	case d.routers != 1:
		return usagef("--routers %d: several routers come with the cluster; this version runs 1", d.routers)
	case d.backends < 1 || d.backends > 500:
		return usagef("--backends %d: must be 1 to 500", d.backends)
	case d.basePort < 0 || d.basePort+backendPorts+d.backends > 1<<16:
		return usagef("--base-port %d: must be 0, or 1 to %d so that the model servers' ports exist", d.basePort, 1<<16-backendPorts-d.backends)
	case !(d.speed > 0):
		return usagef("--speed %v: must be above 0", d.speed)
	}
	return nil
}

// run starts everything, prints what to try, and stops everything when ctx ends: the router before the servers.
func (d *demo) run(ctx context.Context, out, errOut io.Writer) error {
	servers, err := d.modelServers() //nolint:contextcheck // nothing is opened before Run
	if err != nil {
		return err
	}
	listeners, err := d.listen(ctx)
	if err != nil {
		return portHint(err)
	}
	n, err := d.router(listeners, errOut)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	serversCtx, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	var backends errgroup.Group
	for i, s := range servers {
		backends.Go(func() error { return s.Run(serversCtx, listeners[i]) })
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stopServers()
		return n.Run(ctx)
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-n.Listening():
		}
		return d.present(ctx, n, out)
	})
	return portHint(errors.Join(group.Wait(), backends.Wait()))
}

// modelServers makes the servers; they do nothing yet.
func (d *demo) modelServers() ([]*modelserver.Server, error) {
	var servers []*modelserver.Server
	for i := range d.backends {
		cfg := modelserver.Default()
		cfg.ID, cfg.Model, cfg.Speed = backendID(i), demoModel, d.speed
		s, err := modelserver.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("model server %d: %w", i, err)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func backendID(i int) string { return "gpu-" + strconv.Itoa(i) }

// listen opens the model servers' listeners, or none.
func (d *demo) listen(ctx context.Context) ([]net.Listener, error) {
	var listeners []net.Listener
	var config net.ListenConfig
	for i := range d.backends {
		l, err := config.Listen(ctx, "tcp", d.address(backendPorts+i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model server %d: %w", i, err), closeAll(listeners))
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// address is that of the base port plus offset; the kernel chooses when there is no base port.
func (d *demo) address(offset int) string {
	port := 0
	if d.basePort > 0 {
		port = d.basePort + offset
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (d *demo) router(backends []net.Listener, errOut io.Writer) (*node.Node, error) {
	cfg := node.Default()
	cfg.Router.Name = "demo-0"
	cfg.API.Listen, cfg.Admin.Listen = d.address(0), d.address(adminPorts)
	cfg.Telemetry.Log.Level = "warn" // the demo's own words are enough
	cfg.Endpoints = []node.EndpointConfig{{Name: demoModel}}
	for i, l := range backends {
		cfg.Backends = append(cfg.Backends, node.BackendConfig{
			ID: backendID(i), URL: "http://" + l.Addr().String(), Endpoint: demoModel, Weight: 1,
		})
	}
	return node.New(cfg, node.Machine(), node.Options{LogOutput: errOut, Version: moduleVersion(), Getenv: os.Getenv})
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// portHint says how to get around a port that somebody else has.
func portHint(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose other ports with --base-port", err)
	}
	return err
}

// present prints what to try and, if asked for, sends the load.
func (d *demo) present(ctx context.Context, n *node.Node, out io.Writer) error {
	guide, err := template.New("guide").Parse(demoGuide)
	if err != nil {
		return err
	}
	err = guide.Execute(out, map[string]any{"API": n.APIAddr(), "Admin": n.AdminAddr(), "Backends": d.backends, "Model": demoModel})
	if err != nil || !d.load {
		return err
	}
	if err := runLoad(ctx, "http://"+n.APIAddr(), out); err != nil && ctx.Err() == nil { // else it was stopped on purpose
		return err
	}
	return nil
}

const demoGuide = `warmring demo: 1 router, {{.Backends}} simulated model servers. Ctrl-C stops it.

  OpenAI API   http://{{.API}}/v1   model "{{.Model}}", any API key
  dashboard    http://{{.Admin}}/ui/
  admin API    http://{{.Admin}}/admin/v1/status
  metrics      http://{{.Admin}}/metrics

Ask two questions about one document. Both go to the same server, and the second finds the document in its cache:

  DOC=$(printf 'All happy families are alike. %.0s' $(seq 300))
  for Q in Who? Why?; do
    curl -si http://{{.API}}/v1/chat/completions -H 'Content-Type: application/json' -d "{\"model\": \"{{.Model}}\",
      \"messages\": [{\"role\": \"system\", \"content\": \"$DOC\"}, {\"role\": \"user\", \"content\": \"$Q\"}]}" |
    grep -oiE 'X-Warmring-(Backend|Decision).*|"prompt_tokens":[0-9]*|"cached_tokens":[0-9]*'
  done

  warmring status   --admin http://{{.Admin}}
  warmring backends --admin http://{{.Admin}}

With the OpenAI SDK for Python:

  from openai import OpenAI
  client = OpenAI(base_url="http://{{.API}}/v1", api_key="none")
  print(client.responses.create(model="{{.Model}}", input="Hello").output_text)

Headers of each answer say who gave it: X-Warmring-Backend, and why: X-Warmring-Decision.
`
