package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/test/modelserver"
)

// demoModel is the demo's endpoint and the model that its servers claim to have.
const demoModel = "demo"

// Distances of the demo's other ports from --base-port.
const (
	adminPorts   = 1000
	backendPorts = 2000
	peerPorts    = 3000
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
		Short: "Run a cluster of routers and simulated model servers on this machine",
		Long: `Run a cluster of routers and simulated model servers on 127.0.0.1 until Ctrl-C.

Each router is a process of its own, so that one can be killed while the others go on. They listen on the base port, +1, +2
and so on; their admin APIs on base port + 1000, +1001 ...; the model servers from base port + 2000 on; the routers talk to
each other from base port + 3000 on. Endpoint and model are both called demo.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.validate(); err != nil {
				return err
			}
			return d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.IntVar(&d.routers, "routers", 3, "routers, 1 to 20")
	f.IntVar(&d.backends, "backends", 7, "simulated model servers, 1 to 500")
	f.IntVar(&d.basePort, "base-port", 8080, "port of the first router; 0 lets the kernel choose all ports")
	f.Float64Var(&d.speed, "speed", 1, "how many times faster than a real model the servers are")
	f.BoolVar(&d.load, "load", false, "send a demonstration load and show how it was answered")
	return cmd
}

func (d *demo) validate() error {
	switch {
	case d.routers < 1 || d.routers > 20:
		return usagef("--routers %d: must be 1 to 20", d.routers)
	case d.backends < 1 || d.backends > 500:
		return usagef("--backends %d: must be 1 to 500", d.backends)
	case d.basePort < 0 || d.basePort > 0 && d.basePort+peerPorts+d.routers > 1<<16:
		return usagef("--base-port %d: must be 0, or 1 to %d so that all ports exist", d.basePort, 1<<16-peerPorts-d.routers)
	case !(d.speed > 0):
		return usagef("--speed %v: must be above 0", d.speed)
	}
	return nil
}

// run starts everything, prints what to try, and stops everything when ctx ends: the routers before the servers.
func (d *demo) run(ctx context.Context, out, errOut io.Writer) error {
	servers, err := d.modelServers() //nolint:contextcheck // nothing is opened before Run
	if err != nil {
		return err
	}
	listeners, err := d.listen(ctx)
	if err != nil {
		return portHint(err)
	}
	serversCtx, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	var backends errgroup.Group
	for i, s := range servers {
		backends.Go(func() error { return s.Run(serversCtx, listeners[i]) })
	}
	err = d.cluster(ctx, listeners, out, errOut)
	stopServers()
	return errors.Join(err, backends.Wait())
}

// cluster runs the routers until ctx ends or all of them have ended.
func (d *demo) cluster(ctx context.Context, backends []net.Listener, out, errOut io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var routers []*demoRouter
	for i := range d.routers {
		r := &demoRouter{name: "demo-" + strconv.Itoa(i), errOut: errOut, listening: make(chan struct{}), serving: make(chan struct{}), ended: make(chan struct{})}
		cfg := d.config(i, r.name, backends)
		if i > 0 { // all join the first, whose address is known once it listens
			if err := routers[0].wait(ctx, routers[0].listening); err != nil {
				break // its own error says more
			}
			cfg.Cluster.Join = []string{routers[0].peer}
		}
		routers = append(routers, r)
		group.Go(func() error { return r.run(ctx, cfg) })
	}
	group.Go(func() error {
		for _, r := range routers {
			if err := r.wait(ctx, r.serving); err != nil {
				return nil //nolint:nilerr // the router's own error says why
			}
		}
		return d.present(ctx, routers, out)
	})
	return group.Wait()
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
