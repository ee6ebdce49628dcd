package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/node"
)

// batch is how many routers start at once when there is a cluster for them to join.
const batch = 10

// local is a cluster of routers in this process, on real sockets.
type local struct {
	routers []router
	nodes   []*node.Node
	client  *client
	cancel  context.CancelFunc
	group   errgroup.Group
	log     *os.File
}

// startLocal runs n routers and waits until they have settled. Each tweak changes every router's configuration.
func startLocal(ctx context.Context, s *session, n int, backends []node.BackendConfig, tweaks ...func(*node.Config)) (*local, error) {
	log, err := os.CreateTemp(s.dir, "local-*.log")
	if err != nil {
		return nil, err
	}
	l := &local{client: newClient(), log: log}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	for i := range n {
		var join []string
		if i > 0 {
			join = []string{l.routers[0].Peer}
		}
		cfg := routerConfig(fmt.Sprintf("r%02d", i), n, backends, join...)
		for _, tweak := range tweaks {
			tweak(&cfg)
		}
		err := l.add(running, cfg)
		// Founders ask all that they see, several times a second: many at once would keep one machine busy for minutes.
		if have := i + 1; err == nil && (have == n || have == voters(n) || have%batch == 0) {
			err = settle(ctx, l.client, l.routers, voters(n))
		}
		if err != nil {
			return nil, errors.Join(err, l.stop())
		}
	}
	return l, nil
}

func (l *local) add(ctx context.Context, cfg node.Config) error {
	n, err := node.New(cfg, node.Machine(), node.Options{Version: "bench", LogOutput: l.log})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	l.group.Go(func() error {
		defer close(ended)
		return n.Run(ctx)
	})
	select {
	case <-n.Listening():
	case <-ended:
		return fmt.Errorf("%s: %w", cfg.Router.Name, errEnded)
	}
	l.nodes = append(l.nodes, n)
	l.routers = append(l.routers, router{Name: cfg.Router.Name, API: n.APIAddr(), Admin: n.AdminAddr(), Peer: n.PeerAddr()})
	return nil
}

func (l *local) stop() error {
	l.client.close()
	l.cancel()
	return errors.Join(l.group.Wait(), l.log.Close())
}

// fixedSalt gives all clusters the same homes, so that they can be compared.
func (s *session) fixedSalt() (func(*node.Config), error) {
	file := filepath.Join(s.dir, "salt")
	err := os.WriteFile(file, []byte("the same homes for all of them"), 0o600)
	return func(cfg *node.Config) { cfg.Router.SaltFile = file }, err
}
