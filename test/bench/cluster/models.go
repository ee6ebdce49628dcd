package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/node"
	"github.com/warmring/warmring/test/modelserver"
)

// model is the endpoint, and the model that its servers claim to have.
const model = "bench"

// models are simulated model servers in this process, each at an address of its own in 127.1.0.0/16.
type models struct {
	backends []node.BackendConfig
	cancel   context.CancelFunc
	group    errgroup.Group
}

// startModels runs n servers. Twice the speed halves the time of an answer.
func startModels(ctx context.Context, n int, speed float64) (*models, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // they outlive the routers
	m := &models{cancel: cancel}
	for i := range n {
		if err := m.start(ctx, i, speed); err != nil {
			return nil, errors.Join(fmt.Errorf("model server %d: %w", i, err), m.stop())
		}
	}
	return m, nil
}

func (m *models) start(ctx context.Context, i int, speed float64) error {
	cfg := modelserver.Default()
	cfg.ID, cfg.Model, cfg.Speed = fmt.Sprintf("gpu-%d", i), model, speed
	s, err := modelserver.New(cfg) //nolint:contextcheck // nothing is opened before Run
	if err != nil {
		return err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.1.%d.%d:0", i/250, 1+i%250))
	if err != nil {
		return err
	}
	m.group.Go(func() error { return s.Run(ctx, l) })
	m.backends = append(m.backends, node.BackendConfig{ID: cfg.ID, URL: "http://" + l.Addr().String(), Endpoint: model, Weight: 1})
	return nil
}

func (m *models) stop() error {
	m.cancel()
	return m.group.Wait()
}
