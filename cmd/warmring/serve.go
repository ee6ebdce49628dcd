package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/node"
)

func newServe() *cobra.Command {
	var from settings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a router",
		Long: `Run a router until SIGINT or SIGTERM; a second signal ends it at once.

Settings come from the file, then WARMRING_* variables, then flags; the later wins.
SIGHUP reads them and the keys files again and applies endpoints, backends and keys, or, if
anything is wrong, nothing.`,
		Example: "  warmring serve --config warmring.yaml --api.listen 127.0.0.1:8080",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load(cmd.InOrStdin())
			if err != nil {
				return err
			}
			n, err := node.New(cfg, node.Machine(), node.Options{
				LogOutput: cmd.ErrOrStderr(), Version: moduleVersion(), Getenv: os.Getenv,
			})
			if err != nil {
				return err
			}
			collectLate()
			return from.run(cmd.Context(), n)
		},
	}
	from.addTo(cmd)
	from.alias(cmd, "join", "cluster.join", "other routers' peer addresses (host:port, separated by commas); short for --cluster.join")
	return cmd
}

// collectLate lets garbage grow to four times what lives before it is collected.
// What lives is small and bounded by the requests in flight, about 40 KiB each, so
// memory is cheaper here than CPU: measured +9 % requests a second at 4 KB. The
// environment variable GOGC overrides it, GOMEMLIMIT bounds it.
func collectLate() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// run runs n and reloads it at every SIGHUP.
func (s *settings) run(ctx context.Context, n *node.Node) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var group errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	group.Go(func() error {
		defer cancel()
		return n.Run(ctx)
	})
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hangup:
				s.reload(ctx, n)
			}
		}
	})
	return group.Wait()
}

// reload reads the settings again. A failure leaves the node as it is and is only told.
func (s *settings) reload(ctx context.Context, n *node.Node) {
	err := errors.New("standard input cannot be read again")
	if s.file != "-" {
		var cfg node.Config
		if cfg, err = s.load(nil); err == nil {
			err = n.Reload(ctx, cfg)
		}
	}
	if err != nil {
		n.Log().ErrorContext(ctx, "reload refused, the old configuration stays", slog.Any("error", err))
		return
	}
	n.Log().InfoContext(ctx, "reloaded, the fleet is as the configuration file says", slog.String("epoch", n.Epoch().ID()))
}
